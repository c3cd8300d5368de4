// Package published replays tables that others have published: every row is
// predicted and compared with what the paper says.
//
// A table is one file with a function that returns a Table, a row in catalog
// (table.go), and its data in testdata, with the paper, the table and the place
// it was read from at the head of the file. Where constants are fitted, rows that
// the fit has used say so and are left out of the errors.
package published
