//go:build xla && cgo

package backend

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// Local: other libraries can find a library that is loaded this way by its
// name, but do not see its symbols.
static void *load_local(const char *file) { return dlopen(file, RTLD_LAZY | RTLD_LOCAL); }

// Returns a copy of standard output, and redirects it to standard error, or to
// /dev/null if it is closed. Returns -1 if standard output does not exist.
static int divert(void) {
	fflush(stdout);
	int kept = fcntl(1, F_DUPFD_CLOEXEC, 3);
	if (kept >= 0 && dup2(2, 1) < 0) {
		int nowhere = open("/dev/null", O_WRONLY);
		if (nowhere >= 0) {
			dup2(nowhere, 1);
			if (nowhere != 1) close(nowhere);
		}
	}
	return kept;
}

// Lets the memory that C's allocator gets from the system stay in the process, from its start. Otherwise the
// allocator gives large buffers back as soon as they are free, and the next program waits until the system has
// cleared others: a third of a layer norm's time on a core.
__attribute__((constructor)) static void keep_memory(void) {
#ifdef __GLIBC__
	mallopt(M_MMAP_MAX, 0);
	mallopt(M_TRIM_THRESHOLD, -1);
	mallopt(M_ARENA_MAX, 1); // or every thread keeps free buffers of its own
#endif
}

static void restore(int kept) {
	fflush(stdout);
	if (kept >= 0) {
		dup2(kept, 1);
		close(kept);
	}
}
*/
import "C"

import (
	"errors"
	"os"
	"path/filepath"
	"unsafe"
)

// divertOutput redirects standard output to standard error for everything in the process,
// including a plugin's C code, until restore is called.
func divertOutput() (restore func()) {
	stdoutMutex.Lock()
	kept := os.Stdout
	os.Stdout = os.Stderr
	file := C.divert()
	return func() {
		C.restore(file)
		os.Stdout = kept
		stdoutMutex.Unlock()
	}
}

// libraries lists the libraries that JAX loads for its CUDA plugin.
var libraries = []string{
	"libcudart", "libnvJitLink", "libnvrtc", "libcublasLt", "libcublas", "libcusparse", "libcusolver",
	"libcufft", "libcupti", "libcudnn", "libnccl", "libnvshmem_host",
}

// loadLibraries loads the libraries next to a plugin. A library can be loaded only after those
// that it needs, so loadLibraries tries again as long as any succeeds. The rest is left to the
// system's loader.
func loadLibraries(plugin Plugin) {
	var waiting []string
	for _, folder := range plugin.Libraries {
		for _, name := range libraries {
			files, _ := filepath.Glob(filepath.Join(folder, name+".so*"))
			waiting = append(waiting, files...)
		}
	}
	for loaded := true; loaded; {
		var left []string
		for _, file := range waiting {
			if handle, _ := openLibrary(file); handle == nil {
				left = append(left, file)
			}
		}
		loaded = len(left) < len(waiting)
		waiting = left
	}
}

// openLibrary loads a shared library, which stays loaded: CUDA's do not survive unloading.
func openLibrary(file string) (unsafe.Pointer, error) {
	name := C.CString(file)
	defer C.free(unsafe.Pointer(name))
	handle := C.load_local(name)
	if handle == nil {
		return nil, errors.New(C.GoString(C.dlerror()))
	}
	return handle, nil
}
