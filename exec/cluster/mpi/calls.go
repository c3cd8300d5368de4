//go:build mpi

package mpi

/*
#include <mpi.h>
#include <stdlib.h>
#include <time.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

// MPI's constants are macros, which only C sees.

static int psim_init(int *rank, int *size) {
	setenv("OMPI_MCA_mpi_yield_when_idle", "0", 0); // this process sleeps in psim_nap instead
	int provided, rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
	if (rc == MPI_SUCCESS && provided < MPI_THREAD_SERIALIZED) return MPI_ERR_OTHER;
	if (rc == MPI_SUCCESS) rc = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (rc == MPI_SUCCESS) rc = MPI_Comm_rank(MPI_COMM_WORLD, rank);
	if (rc == MPI_SUCCESS) rc = MPI_Comm_size(MPI_COMM_WORLD, size);
	return rc;
}

static int psim_gather_sizes(int mine, int *all) {
	return MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
}

static int psim_gather(void *mine, int n, void *all, int *sizes, int *begins) {
	return MPI_Allgatherv(mine, n, MPI_BYTE, all, sizes, begins, MPI_BYTE, MPI_COMM_WORLD);
}

static int psim_isend(void *data, int n, int to, int tag, MPI_Request *r) {
	return MPI_Isend(data, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, r);
}

static int psim_irecv(void *data, int n, int from, int tag, MPI_Request *r) {
	return MPI_Irecv(data, n, MPI_BYTE, from, tag, MPI_COMM_WORLD, r);
}

static int psim_test(MPI_Request *r, int *done) {
	return MPI_Test(r, done, MPI_STATUS_IGNORE);
}

// psim_probe reports whether a message with a tag has arrived, its sender and its length.
static int psim_probe(int tag, int *found, int *from, int *n) {
	MPI_Status s;
	int rc = MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, found, &s);
	if (rc == MPI_SUCCESS && *found) {
		*from = s.MPI_SOURCE;
		rc = MPI_Get_count(&s, MPI_BYTE, n);
	}
	return rc;
}

static int psim_recv(void *data, int n, int from, int tag) {
	return MPI_Recv(data, n, MPI_BYTE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void psim_abort(void) { MPI_Abort(MPI_COMM_WORLD, 1); }

static int psim_text(int rc, char *text) {
	int n = 0;
	MPI_Error_string(rc, text, &n);
	return n;
}

enum { psim_longest_text = MPI_MAX_ERROR_STRING };

static void psim_nap(long ns) {
#ifdef __linux__
	prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0); // so that short sleeps of this thread are short
#endif
	struct timespec t = {0, ns};
	nanosleep(&t, NULL);
}
*/
import "C"

import (
	"errors"
	"runtime"
	"time"
	"unsafe"
)

// check turns a return code of MPI into an error.
func check(rc C.int) error {
	if rc == C.MPI_SUCCESS {
		return nil
	}
	text := make([]C.char, C.psim_longest_text+1)
	n := C.psim_text(rc, &text[0])
	return errors.New("MPI: " + C.GoStringN(&text[0], n))
}

// pointer returns a pointer to the first byte; nil for an empty slice.
func pointer(data []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(data)) }

func initialize() (rank, size int, err error) {
	var r, s C.int
	err = check(C.psim_init(&r, &s))
	return int(r), int(s), err
}

func finalize() error { return check(C.MPI_Finalize()) }

func abort() { C.psim_abort() }

// gather returns the data of all processes, by rank.
func gather(size int, mine []byte) ([][]byte, error) {
	sizes, begins := make([]C.int, size), make([]C.int, size)
	if err := check(C.psim_gather_sizes(C.int(len(mine)), &sizes[0])); err != nil {
		return nil, err
	}
	total := 0
	for k, n := range sizes {
		begins[k] = C.int(total)
		total += int(n)
	}
	together := make([]byte, total)
	rc := C.psim_gather(pointer(mine), C.int(len(mine)), pointer(together), &sizes[0], &begins[0])
	if err := check(rc); err != nil {
		return nil, err
	}
	all := make([][]byte, size)
	for k, n := range sizes {
		all[k] = together[begins[k]:][:n]
	}
	return all, nil
}

// next returns the next message with a tag, if one has arrived.
func next(tag int) (from int, data []byte, found bool, err error) {
	var f, n, has C.int
	if err = check(C.psim_probe(C.int(tag), &has, &f, &n)); err != nil || has == 0 {
		return 0, nil, false, err
	}
	data = make([]byte, n)
	return int(f), data, true, check(C.psim_recv(pointer(data), n, f, C.int(tag)))
}

// largest bounds the pieces in which data are sent, because MPI counts bytes in an int.
const largest = 1 << 30

// A transfer is memory that MPI reads or writes until all pieces are complete.
type transfer struct {
	pin      runtime.Pinner
	requests []C.MPI_Request
}

// add begins to send or to receive data, in pieces.
func (t *transfer) add(send bool, data []byte, peer, tag int) error {
	for first := true; first || len(data) > 0; first = false {
		piece := data[:min(len(data), largest)]
		data = data[len(piece):]
		if len(piece) > 0 {
			t.pin.Pin(unsafe.SliceData(piece))
		}
		var r C.MPI_Request
		begin := func() C.int {
			if send {
				return C.psim_isend(pointer(piece), C.int(len(piece)), C.int(peer), C.int(tag), &r)
			}
			return C.psim_irecv(pointer(piece), C.int(len(piece)), C.int(peer), C.int(tag), &r)
		}
		if err := check(begin()); err != nil {
			return err
		}
		t.requests = append(t.requests, r)
	}
	return nil
}

// done reports whether all pieces are complete, and then releases the memory.
func (t *transfer) done() (bool, error) {
	for len(t.requests) > 0 {
		var done C.int
		if err := check(C.psim_test(&t.requests[0], &done)); err != nil || done == 0 {
			return false, err
		}
		t.requests = t.requests[1:]
	}
	t.pin.Unpin()
	return true, nil
}

// nap sleeps for less than a second.
func nap(d time.Duration) { C.psim_nap(C.long(d)) }
