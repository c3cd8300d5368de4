//go:build xla && cgo

package backend

/*
#define _GNU_SOURCE // memmem
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "xla_table.h"

// The beginning of the arguments for compiling, and a program in them.
struct program {
	size_t size;
	void *extensions;
	char *code;
	size_t code_size;
};
struct compile_arguments {
	size_t size;
	void *extensions;
	void *client;
	const struct program *program;
	const char *options;
	size_t options_size;
	void *executable; // the result
};
struct destroy_arguments {
	size_t size;
	void *extensions;
	void *executable;
};

// The arguments for the sizes of a program, as far as all versions have them.
struct memory_arguments {
	size_t size;
	void *extensions;
	void *executable;
	int64_t code, arguments, outputs, shared, temporaries;
};

// What a thread compiles.
static _Thread_local struct {
	const struct table *plugin;
	int32_t *outputs; // of each argument, or -1
	int count;
	int stays; // when nobody uses it
	struct memory_arguments sizes;
} job;

// Says of each argument of the main function which output takes its memory. gomlx
// writes a program as text, and has no way to say this.
static char *name_outputs(const char *code, size_t size, size_t *written) {
	const size_t most = 48; // bytes of an attribute
	char *text = malloc(size + job.count * most), *to = text;
	const char *end = code + size, *main = text ? memmem(code, size, "@main(", 6) : NULL;
	if (!main) {
		free(text);
		return NULL;
	}
	int argument = 0, depth = 0;
	for (const char *from = code; from < end; from++) {
		if (from >= main + 6 && argument < job.count) {
			if (strchr("<{", *from)) depth++;
			if (strchr(">}", *from)) depth--;
			if (depth == 0 && strchr(",)", *from)) {
				int32_t output = job.outputs[argument++];
				if (output >= 0) to += sprintf(to, " {tf.aliasing_output = %d : i32}", output);
			}
		}
		*to++ = *from;
	}
	*written = to - text;
	return text;
}

// Programs that are compiled and not yet destroyed. Equal ones are compiled once, and have several users. On
// cores, whose clients live as long as the process, some stay when nobody uses them.
enum { MOST_UNUSED = 200 };
static struct compiled {
	struct compiled *next;
	const struct table *plugin;
	void *client, *executable;
	char *text; // the program and the options
	size_t size;
	int users;
	int stays;
} *all; // the latest is the first
static pthread_mutex_t all_mutex = PTHREAD_MUTEX_INITIALIZER;

// Finds the place of a program in the list, by its text or its executable; that of the end if it is not there.
static struct compiled **find(void *client, const char *text, size_t size, void *executable) {
	struct compiled **at = &all;
	for (; *at; at = &(*at)->next) {
		struct compiled *c = *at;
		if (executable ? c->executable == executable
				: c->client == client && c->size == size && !memcmp(c->text, text, size)) break;
	}
	return at;
}

// Compiles a text, or takes an equal program. Two threads may both compile one, which does no harm.
static void *compile_once(struct compile_arguments *a, struct program *named) {
	size_t size = named->code_size + a->options_size;
	char *key = malloc(size + 1);
	struct compiled *made = malloc(sizeof *made);
	void *error = NULL;
	if (!key || !made) {
		free(key);
		free(made);
		return job.plugin->functions[COMPILE](a); // and is never destroyed
	}
	memcpy(key, named->code, named->code_size);
	memcpy(key + named->code_size, a->options, a->options_size);
	pthread_mutex_lock(&all_mutex);
	struct compiled *known = *find(a->client, key, size, NULL);
	if (known) known->users++;
	pthread_mutex_unlock(&all_mutex);
	if (!known && !(error = job.plugin->functions[COMPILE](a))) {
		*made = (struct compiled){NULL, job.plugin, a->client, a->executable, key, size, 1, job.stays};
		pthread_mutex_lock(&all_mutex);
		made->next = all;
		all = made;
		pthread_mutex_unlock(&all_mutex);
		return NULL;
	}
	if (known) a->executable = known->executable;
	free(key);
	free(made);
	return error;
}

void *psim_compile(void *arguments) {
	struct compile_arguments *a = arguments;
	const struct program *given = a->program;
	char *text = NULL;
	struct program *named = malloc(given->size);
	if (!named) return job.plugin->functions[COMPILE](arguments);
	memcpy(named, given, given->size);
	text = name_outputs(given->code, given->code_size, &named->code_size);
	if (text) named->code = text;
	a->program = named;
	void *error = compile_once(a, named);
	a->program = given;
	free(text);
	free(named);
	return error;
}

// Takes a program that has lost a user. Returns what is to be destroyed, if anything: it, or that which nobody
// has used for longest.
static struct compiled *spent(void *executable) {
	struct compiled **at = find(NULL, NULL, 0, executable), *c = *at;
	if (!c || --c->users > 0) return NULL;
	*at = c->next;
	if (!c->stays) return c;
	c->next = all;
	all = c;
	int unused = 0;
	struct compiled **last = NULL;
	for (at = &all; *at; at = &(*at)->next) {
		if ((*at)->users == 0) {
			unused++;
			last = at;
		}
	}
	if (unused <= MOST_UNUSED) return NULL;
	c = *last;
	*last = c->next;
	return c;
}

void *psim_destroy(void *arguments) {
	struct destroy_arguments a = *(struct destroy_arguments *)arguments;
	pthread_mutex_lock(&all_mutex);
	struct compiled *c = spent(a.executable);
	pthread_mutex_unlock(&all_mutex);
	if (!c) return NULL;
	a.executable = c->executable;
	void *error = c->plugin->functions[DESTROY_EXECUTABLE](&a);
	free(c->text);
	free(c);
	return error;
}

void *psim_memory(void *arguments) {
	void *error = job.plugin->functions[MEMORY](arguments);
	if (!error) memcpy(&job.sizes, arguments, sizeof job.sizes);
	return error;
}

// Begins to compile on this thread, with a list that becomes the job's.
static void begin(const struct table *plugin, int32_t *outputs, int count, int stays) {
	memset(&job, 0, sizeof job);
	job.stays = stays;
	job.plugin = plugin;
	job.outputs = outputs;
	job.count = count;
}

static struct memory_arguments end(void) {
	free(job.outputs);
	job.outputs = NULL;
	job.count = 0;
	return job.sizes;
}
*/
import "C"

import (
	"runtime"
	"unsafe"

	"github.com/gomlx/compute"
	"github.com/gomlx/go-xla/compute/xla"
)

// compileSharing compiles with gomlx, and lets outputs take the memory of the inputs that are spent: it has
// the number of an output for every input, or -1. It returns what XLA says of the program's memory.
func compileSharing(engine compute.Backend, outputs []int32, compile func() error) (ProgramSizes, error) {
	made, ok := engine.(*xla.Backend)
	if !ok {
		return ProgramSizes{}, compile()
	}
	found, _ := registered.Load(made.PluginName())
	loaded, stays := found.(*loadedPlugin), C.int(0)
	if loaded.Platform == CPUPlatform {
		stays = 1
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	list := C.malloc(C.size_t(4 * (1 + len(outputs))))
	copy(unsafe.Slice((*int32)(list), len(outputs)), outputs)
	C.begin(loaded.table, (*C.int32_t)(list), C.int(len(outputs)), stays)
	err := compile()
	s := C.end()
	return ProgramSizes{int64(s.arguments), int64(s.outputs), int64(s.shared), int64(s.temporaries)}, err
}
