"""The command line: one module per command; `app` registers them and maps errors to exit statuses."""
