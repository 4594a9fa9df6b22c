"""The docs site: what mkdocs.yml asks of this project itself."""
