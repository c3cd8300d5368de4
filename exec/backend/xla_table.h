#include <stddef.h>

// The beginning of PJRT's table of functions, which no version of it changes.
typedef void *(*function)(void *);
struct table {
	size_t size;
	void *extensions;
	size_t version_size;
	void *version_extensions;
	int major, minor;
	function functions[97];
};
enum { // places in it
	INITIALIZE = 3, CLIENT_CREATE = 10, COMPILE = 20, DESTROY_EXECUTABLE = 50, MEMORY = 96
};
