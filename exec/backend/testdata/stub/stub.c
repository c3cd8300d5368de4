// A PJRT plugin without an accelerator, for tests: its devices keep 4-byte
// numbers in host memory, and every program doubles its int32 argument. The
// environment says how it behaves:
//
//   STUB_DEVICES=N    how many devices there are (2)
//   STUB_DEVICE=TEXT  what they are called (StubDevice)
//   STUB_MAJOR=N      the major version it reports (0)
//   STUB_PLATFORM=TEXT the name of its platform (stub)
//   STUB_PLAIN=1      refuses every option of a client
//   STUB_FAIL=WHAT    fails in initialize, client, compile or execute
//   STUB_CHANGE=N     copies to device N arrive changed
//   STUB_WRONG=1      programs compute something else
//   STUB_SAY=TEXT     prints TEXT on standard output when a client is made
//   STUB_PROGRAM=FILE writes the last program's text into FILE
//   STUB_OPTIONS=FILE appends a client's options to FILE, one per line
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "pjrt_c_api.h"

#ifdef NEEDED
int NEEDED(void); // of another library, so that the loader needs that one
#endif

// What psim knows of the table of functions, and of a client's arguments.
#define PLACE(name, n) _Static_assert(offsetof(PJRT_Api, name) == 40 + 8 * n, "place of " #name)
PLACE(PJRT_Plugin_Initialize, 3);
PLACE(PJRT_Client_Create, 10);
PLACE(PJRT_Client_Compile, 20);
PLACE(PJRT_Executable_GetCompiledMemoryStats, 96);
_Static_assert(offsetof(PJRT_Client_Compile_Args, program) == 24, "place of program");
_Static_assert(offsetof(PJRT_Program, code_size) == 24, "place of code_size");
_Static_assert(offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, argument_size_in_bytes) == 32, "place of argument_size_in_bytes");
_Static_assert(offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, temp_size_in_bytes) == 56, "place of temp_size_in_bytes");
_Static_assert(offsetof(PJRT_Client_Create_Args, num_options) == 24, "place of num_options");

#define MOST 16

struct PJRT_Error { char text[200]; };
struct PJRT_Device { int number; };
struct PJRT_Client { int count; struct PJRT_Device devices[MOST]; PJRT_Device *list[MOST]; };
struct PJRT_Buffer { PJRT_Device *device; PJRT_Buffer_Type type; int64_t dims[8]; size_t rank, bytes; int32_t *data; };

static char nothing; // stands for events and executables

static int env(const char *name, int otherwise) {
	const char *set = getenv(name);
	return set ? atoi(set) : otherwise;
}

static PJRT_Error *fail(const char *what, const char *text) {
	const char *set = getenv("STUB_FAIL");
	if (what && !(set && !strcmp(set, what))) return NULL;
	PJRT_Error *e = calloc(1, sizeof *e);
	snprintf(e->text, sizeof e->text, "%s", text);
	return e;
}

static void error_destroy(PJRT_Error_Destroy_Args *a) { free(a->error); }
static void error_message(PJRT_Error_Message_Args *a) {
	a->message = a->error->text;
	a->message_size = strlen(a->message);
}
static PJRT_Error *error_code(PJRT_Error_GetCode_Args *a) {
	a->code = PJRT_Error_Code_INTERNAL;
	return NULL;
}

static PJRT_Error *initialize(PJRT_Plugin_Initialize_Args *a) { return fail("initialize", "the stub refuses to start"); }
static PJRT_Error *attributes(PJRT_Plugin_Attributes_Args *a) {
	a->num_attributes = 0;
	return NULL;
}
static PJRT_Error *event_destroy(PJRT_Event_Destroy_Args *a) { return NULL; }
static PJRT_Error *event_await(PJRT_Event_Await_Args *a) { return NULL; }

static void write_options(PJRT_Client_Create_Args *a) {
	FILE *f = getenv("STUB_OPTIONS") ? fopen(getenv("STUB_OPTIONS"), "a") : NULL;
	if (!f) return;
	for (size_t i = 0; i < a->num_options; i++) {
		const PJRT_NamedValue *o = &a->create_options[i];
		fprintf(f, "%.*s=", (int)o->name_size, o->name);
		if (o->type == PJRT_NamedValue_kBool) fprintf(f, "%s\n", o->bool_value ? "true" : "false");
		else if (o->type == PJRT_NamedValue_kFloat) fprintf(f, "%g\n", o->float_value);
		else if (o->type == PJRT_NamedValue_kInt64List) fprintf(f, "%d devices, first %d\n", (int)o->value_size, (int)o->int64_array_value[0]);
		else fprintf(f, "?\n");
	}
	fclose(f);
}

static PJRT_Error *client_create(PJRT_Client_Create_Args *a) {
	if (getenv("STUB_SAY")) printf("%s\n", getenv("STUB_SAY"));
	write_options(a);
	PJRT_Error *e = fail("client", "no CUDA-capable device is detected");
	if (e) return e;
	if (getenv("STUB_PLAIN") && a->num_options) return fail(NULL, "unknown option");
	PJRT_Client *c = calloc(1, sizeof *c);
	c->count = env("STUB_DEVICES", 2);
	for (size_t i = 0; i < a->num_options; i++)
		if (!strncmp(a->create_options[i].name, "visible_devices", a->create_options[i].name_size)) c->count = a->create_options[i].value_size;
	for (int i = 0; i < c->count && i < MOST; i++) {
		c->devices[i].number = i;
		c->list[i] = &c->devices[i];
	}
	a->client = c;
	return NULL;
}
static PJRT_Error *client_destroy(PJRT_Client_Destroy_Args *a) {
	free(a->client);
	return NULL;
}
static PJRT_Error *platform_name(PJRT_Client_PlatformName_Args *a) {
	a->platform_name = getenv("STUB_PLATFORM") ? getenv("STUB_PLATFORM") : "stub";
	a->platform_name_size = strlen(a->platform_name);
	return NULL;
}
static PJRT_Error *platform_version(PJRT_Client_PlatformVersion_Args *a) {
	a->platform_version = "1";
	a->platform_version_size = 1;
	return NULL;
}
static PJRT_Error *client_process(PJRT_Client_ProcessIndex_Args *a) {
	a->process_index = 0;
	return NULL;
}
static PJRT_Error *client_devices(PJRT_Client_AddressableDevices_Args *a) {
	a->addressable_devices = a->client->list;
	a->num_addressable_devices = a->client->count;
	return NULL;
}

static PJRT_Error *hardware_id(PJRT_Device_LocalHardwareId_Args *a) {
	a->local_hardware_id = a->device->number;
	return NULL;
}
static PJRT_Error *addressable(PJRT_Device_IsAddressable_Args *a) {
	a->is_addressable = true;
	return NULL;
}
static PJRT_Error *description(PJRT_Device_GetDescription_Args *a) {
	a->device_description = (PJRT_DeviceDescription *)a->device;
	return NULL;
}
static PJRT_Error *device_process(PJRT_DeviceDescription_ProcessIndex_Args *a) {
	a->process_index = 0;
	return NULL;
}
static PJRT_Error *debug_string(PJRT_DeviceDescription_DebugString_Args *a) {
	a->debug_string = getenv("STUB_DEVICE") ? getenv("STUB_DEVICE") : "StubDevice";
	a->debug_string_size = strlen(a->debug_string);
	return NULL;
}

static PJRT_Buffer *new_buffer(PJRT_Device *device, PJRT_Buffer_Type type, const int64_t *dims, size_t rank, const void *data) {
	PJRT_Buffer *b = calloc(1, sizeof *b);
	b->device = device, b->type = type, b->rank = rank, b->bytes = 4;
	for (size_t i = 0; i < rank; i++) b->bytes *= (b->dims[i] = dims[i]);
	b->data = malloc(b->bytes + 4);
	memcpy(b->data, data, b->bytes);
	return b;
}
static PJRT_Error *from_host(PJRT_Client_BufferFromHostBuffer_Args *a) {
	if (a->type != PJRT_Buffer_Type_S32 && a->type != PJRT_Buffer_Type_F32) return fail(NULL, "the stub has numbers of 4 bytes only");
	a->buffer = new_buffer(a->device, a->type, a->dims, a->num_dims, a->data);
	a->done_with_host_buffer = (PJRT_Event *)&nothing;
	return NULL;
}
static PJRT_Error *to_host(PJRT_Buffer_ToHostBuffer_Args *a) {
	if (a->dst_size < a->src->bytes) return fail(NULL, "the destination is too small");
	memcpy(a->dst, a->src->data, a->src->bytes);
	a->event = (PJRT_Event *)&nothing;
	return NULL;
}
static PJRT_Error *copy_to_device(PJRT_Buffer_CopyToDevice_Args *a) {
	PJRT_Buffer *b = a->buffer;
	a->dst_buffer = new_buffer(a->dst_device, b->type, b->dims, b->rank, b->data);
	if (a->dst_device->number == env("STUB_CHANGE", -1)) a->dst_buffer->data[0]++;
	return NULL;
}
static PJRT_Error *buffer_destroy(PJRT_Buffer_Destroy_Args *a) {
	free(a->buffer->data);
	free(a->buffer);
	return NULL;
}
static PJRT_Error *element_type(PJRT_Buffer_ElementType_Args *a) {
	a->type = a->buffer->type;
	return NULL;
}
static PJRT_Error *dimensions(PJRT_Buffer_Dimensions_Args *a) {
	a->dims = a->buffer->dims;
	a->num_dims = a->buffer->rank;
	return NULL;
}
static PJRT_Error *buffer_device(PJRT_Buffer_Device_Args *a) {
	a->device = a->buffer->device;
	return NULL;
}

static PJRT_Error *compile(PJRT_Client_Compile_Args *a) {
	FILE *f = getenv("STUB_PROGRAM") ? fopen(getenv("STUB_PROGRAM"), "w") : NULL;
	if (f) {
		fwrite(a->program->code, 1, a->program->code_size, f);
		fclose(f);
	}
	a->executable = (PJRT_LoadedExecutable *)&nothing;
	return fail("compile", "ptxas was not found");
}
static PJRT_Error *get_executable(PJRT_LoadedExecutable_GetExecutable_Args *a) {
	a->executable = (PJRT_Executable *)&nothing;
	return NULL;
}
static PJRT_Error *loaded_destroy(PJRT_LoadedExecutable_Destroy_Args *a) { return NULL; }
static PJRT_Error *executable_destroy(PJRT_Executable_Destroy_Args *a) { return NULL; }
static PJRT_Error *executable_name(PJRT_Executable_Name_Args *a) {
	a->executable_name = "stub";
	a->executable_name_size = 4;
	return NULL;
}
static PJRT_Error *outputs(PJRT_Executable_NumOutputs_Args *a) {
	a->num_outputs = 1;
	return NULL;
}
static PJRT_Error *memory(PJRT_Executable_GetCompiledMemoryStats_Args *a) {
	a->argument_size_in_bytes = 100, a->output_size_in_bytes = 50, a->alias_size_in_bytes = 20, a->temp_size_in_bytes = 7;
	return NULL;
}
static PJRT_Error *execute(PJRT_LoadedExecutable_Execute_Args *a) {
	PJRT_Error *e = fail("execute", "out of memory");
	if (e) return e;
	PJRT_Buffer *in = a->argument_lists[0][0];
	PJRT_Buffer *out = new_buffer(a->execute_device, in->type, in->dims, in->rank, in->data);
	for (size_t i = 0; i < out->bytes / 4; i++) out->data[i] *= env("STUB_WRONG", 0) ? 3 : 2;
	a->output_lists[0][0] = out;
	a->device_complete_events[0] = (PJRT_Event *)&nothing;
	return NULL;
}

const PJRT_Api *GetPjrtApi(void) {
	static PJRT_Api api = {
		.struct_size = PJRT_Api_STRUCT_SIZE,
		.pjrt_api_version = {.struct_size = PJRT_Api_Version_STRUCT_SIZE, .minor_version = PJRT_API_MINOR},
		.PJRT_Error_Destroy = error_destroy, .PJRT_Error_Message = error_message, .PJRT_Error_GetCode = error_code,
		.PJRT_Plugin_Initialize = initialize, .PJRT_Plugin_Attributes = attributes,
		.PJRT_Event_Destroy = event_destroy, .PJRT_Event_Await = event_await,
		.PJRT_Client_Create = client_create, .PJRT_Client_Destroy = client_destroy,
		.PJRT_Client_PlatformName = platform_name, .PJRT_Client_PlatformVersion = platform_version,
		.PJRT_Client_ProcessIndex = client_process, .PJRT_Client_AddressableDevices = client_devices,
		.PJRT_Client_Compile = compile, .PJRT_Client_BufferFromHostBuffer = from_host,
		.PJRT_Device_LocalHardwareId = hardware_id, .PJRT_Device_IsAddressable = addressable, .PJRT_Device_GetDescription = description,
		.PJRT_DeviceDescription_ProcessIndex = device_process, .PJRT_DeviceDescription_DebugString = debug_string,
		.PJRT_Executable_Destroy = executable_destroy, .PJRT_Executable_Name = executable_name,
		.PJRT_Executable_NumOutputs = outputs, .PJRT_Executable_GetCompiledMemoryStats = memory,
		.PJRT_LoadedExecutable_Destroy = loaded_destroy, .PJRT_LoadedExecutable_GetExecutable = get_executable, .PJRT_LoadedExecutable_Execute = execute,
		.PJRT_Buffer_Destroy = buffer_destroy, .PJRT_Buffer_ElementType = element_type, .PJRT_Buffer_Dimensions = dimensions,
		.PJRT_Buffer_Device = buffer_device, .PJRT_Buffer_ToHostBuffer = to_host, .PJRT_Buffer_CopyToDevice = copy_to_device,
	};
	api.pjrt_api_version.major_version = env("STUB_MAJOR", 0);
#ifdef NEEDED
	api.pjrt_api_version.minor_version = NEEDED();
#endif
	return &api;
}
