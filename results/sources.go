package results

import "embed"

//go:embed boundary.go checks.go critical.go epochs.go explain.go groups.go measurement.go memory.go interval.go
//go:embed result.go shards.go steadiness.go whatif.go work.go interval.go
var sources embed.FS

// Sources returns the Go files with the structs that results are written from. Package schema
// takes the descriptions of fields from their comments.
func Sources() embed.FS { return sources }
