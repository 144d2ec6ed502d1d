"""How many keys a tenant may bring into use, and how often it may ask after them."""
