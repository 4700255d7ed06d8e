"""Splitting documents into passages whose places are known to the character."""
