"""Apps as users write them."""
