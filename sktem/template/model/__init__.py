"""The complete-data model of deformed templates: chains, modes, M-step, nuisances."""
