"""Documents of office programs: Word, PowerPoint, Excel and RTF."""
