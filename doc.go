// Package psim predicts how a distributed training step runs: its time, bubbles,
// memory and communication. Load reads a configuration, and the rest is one call
// each:
//
//   - Predict builds its task graph, simulates that and sums up what happened;
//     Prediction.Advise says what would make it fit in memory;
//   - Search does so for every plan that the configuration allows, and ranks them;
//   - Compare holds two predictions, or saved results, against each other;
//   - FitLink calibrates a link from the output of nccl-tests.
//
// Results, tables, pictures and files are those of package reports. Package exec
// runs the same graphs for real; psim never imports it, so that a program which
// predicts needs neither gomlx nor a backend.
package psim
