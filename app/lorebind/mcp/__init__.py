"""The project for programs that speak the Model Context Protocol (MCP)."""
