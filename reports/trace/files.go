package trace

import (
	"compress/gzip"
	"io"
	"strings"

	"psim/internal/files"
	"psim/reports/chart"
	"psim/results"
)

// TraceFormats lists the endings of the names of trace files for viewers.
func TraceFormats() []string { return []string{".json", ".json.gz", ".pftrace"} }

// TraceFile returns the trace of a run as a file for viewers: Perfetto's protobuf if the
// path ends in .pftrace, and otherwise Chrome's JSON, compressed if the path ends in .gz.
func TraceFile(r results.Run, path string) files.File {
	return files.File{Path: path, Render: func(w io.Writer) error {
		switch {
		case strings.HasSuffix(path, ".pftrace"):
			return WritePerfetto(w, r.Trace)
		case !strings.HasSuffix(path, ".gz"):
			return WriteChrome(w, r.Trace, AllRanks)
		}
		z := gzip.NewWriter(w)
		if err := WriteChrome(z, r.Trace, AllRanks); err != nil {
			return err
		}
		return z.Close()
	}}
}

// Formats lists the formats of pictures.
func Formats() []string { return chart.Formats() }
