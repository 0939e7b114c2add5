"""WHAT: frozen values that the rooms hand to each other. No behaviour beyond identity and formatting."""
