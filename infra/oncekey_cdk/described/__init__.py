"""A whole service from its typed description, `oncekey_local.description.Service`."""
