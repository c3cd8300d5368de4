//go:build !mpi

package mpi_test

import (
	"fmt"

	"psim/exec/cluster/mpi"
)

// A program that is built without the tag mpi says how to build it.
func ExampleOpen() {
	_, err := mpi.Open()
	fmt.Println(mpi.Compiled, err)
	// Output: false built without MPI: build with CC=mpicc go build -tags mpi
}
