// Package mpi carries messages between processes that mpirun, srun or another MPI launcher has
// started. It is compiled in with the tag mpi, by a C compiler that knows an MPI (Open MPI,
// MPICH, …), such as the wrapper that comes with it:
//
//	CC=mpicc go build -tags mpi ./cmd/psim
package mpi
