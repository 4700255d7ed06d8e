"""Templates in declarations: `{{ .scope.name }}`, and the values that they look up."""
