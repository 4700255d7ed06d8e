"""Files written by the previous version, and the project they were written for."""
