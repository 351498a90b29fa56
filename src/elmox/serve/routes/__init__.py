"""The endpoints, one file per capability; each adds its routes to the application."""
