"""The console: a local page that shows the operations of a service, and acts on them."""
