"""The MCP server: what coding agents call. Thin over the use cases; nothing a client's timeout can kill."""
