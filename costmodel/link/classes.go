package link

// collectiveClasses lists the classes of work that the collectives over a link belong to (see
// setting.Setting.Prices).
func collectiveClasses() []string {
	return []string{"tensor", "context", "data_", "expert_", "expert-data_", "tied_"}
}

// transferClasses lists the classes of all transfers over a link.
func transferClasses() []string { return append(collectiveClasses(), "pipeline", "collective") }

// fusedClasses lists the classes of collectives that may be fused ones.
func fusedClasses() []string { return append(collectiveClasses(), "collective") }
