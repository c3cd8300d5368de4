// Package mpi carries messages between the processes that mpirun, srun or another
// launcher of MPI has started. It is compiled with the tag mpi, and a C compiler that
// knows an MPI (Open MPI, MPICH, …), which its wrapper is:
//
//	CC=mpicc go build -tags mpi ./cmd/psim
package mpi
