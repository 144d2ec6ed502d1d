"""The OpenAPI document of a described service, made from the description and its handlers."""
