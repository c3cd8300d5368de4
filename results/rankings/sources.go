package rankings

import "embed"

//go:embed ranking.go
var sources embed.FS

// Sources returns the Go files with the structs that rankings are written from. Package
// schema takes the descriptions of fields from their comments.
func Sources() embed.FS { return sources }
