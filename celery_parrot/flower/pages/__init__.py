"""The pages under ``/parrot``: shells without data; the modules in ``static/`` fill them from the API."""
