//go:build !mpi

package mpi

import "errors"

// Compiled reports whether this program is built with MPI.
const Compiled = false

// Conn stands for a connection in a psim without MPI. Open never returns one.
type Conn struct{ Rank, Size int }

// Open fails: the program is built without MPI.
func Open() (*Conn, error) {
	return nil, errors.New("built without MPI: build with CC=mpicc go build -tags mpi")
}

// Exchange does nothing without MPI.
func (c *Conn) Exchange([]byte) ([][]byte, error) { return nil, nil }

// Start does nothing without MPI.
func (c *Conn) Start(func(from int, key string, data []byte), func(error)) {}

// Send does nothing without MPI.
func (c *Conn) Send(int, string, []byte) error { return nil }

// Announce does nothing without MPI.
func (c *Conn) Announce() {}

// Close does nothing without MPI.
func (c *Conn) Close() {}

// Break does nothing without MPI.
func (c *Conn) Break(bool) {}
