package rankings

import "embed"

//go:embed ranking.go
var sources embed.FS

// Sources returns the Go files of the structs that rankings are written from. Package schema
// describes fields by the comments in them.
func Sources() embed.FS { return sources }
