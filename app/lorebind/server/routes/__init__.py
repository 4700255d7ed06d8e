"""The routes of the API, with one file per kind of resource."""
