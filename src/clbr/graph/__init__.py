"""The sparse engine: the graph of users, bundles and items, and operators on its nodes' vectors."""
