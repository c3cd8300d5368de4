//go:build xla && cgo && linux

package backend_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/compute/xla"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"psim/costmodel/network"
	"psim/exec/backend"
	"psim/exec/exectest"
	"psim/exec/kernels"
	"psim/internal/cores"
)

// compileC makes a shared library of C code, or skips the test.
func compileC(t testing.TB, file string, arguments ...string) string {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("this test makes a plugin of C code, and there is no C compiler (cc)")
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	command := exec.Command("cc", append([]string{"-shared", "-fPIC", "-o", file}, arguments...)...)
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s\n%s", command, out)
	return file
}

// stub compiles the plugin of testdata/stub. A process loads a file only once, so every test
// has a file of its own.
func stub(t testing.TB, file string, arguments ...string) string {
	t.Helper()
	headers, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/gomlx/go-xla").Output()
	require.NoError(t, err)
	include := "-I" + filepath.Join(strings.TrimSpace(string(headers)), "pjrt")
	arguments = append([]string{include, "testdata/stub/stub.c"}, arguments...)
	return compileC(t, file, arguments...)
}

func TestXLADevices(t *testing.T) {
	file := stub(t, t.TempDir()+"/stub.so")
	options := t.TempDir() + "/options"
	t.Setenv("STUB_OPTIONS", options)
	t.Setenv("STUB_DEVICES", "3")
	devices, err := backend.Open(2, backend.Options{Backend: "xla:" + file})
	require.NoError(t, err)
	require.Len(t, devices, 2)
	require.True(t, devices[0].Backend == devices[1].Backend, "they are devices of one client")
	require.EqualValues(t, 1, devices[1].Number)
	require.Contains(t, devices[1].Description(), "StubDevice")
	for _, d := range devices {
		require.NoError(t, d.Try())
		require.Zero(t, d.Bytes(), "the self-test frees its tensors")
	}
	backend.Close(devices)
	given, err := os.ReadFile(options)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("preallocate=false\n", 2), string(given), "of the first client, which says what the plugin is")
}

// The plugin is found at the place that the user's variable names.
func TestXLAIsFound(t *testing.T) {
	file := stub(t, t.TempDir()+"/pjrt_c_api_stub_plugin.so")
	t.Setenv(backend.PluginVariable, filepath.Dir(file))
	devices, err := backend.Open(1, backend.Options{Backend: "xla"})
	require.NoError(t, err)
	backend.Close(devices)
	t.Setenv(backend.PluginVariable, t.TempDir())
	_, err = backend.Open(1, backend.Options{Backend: "xla"})
	require.ErrorContains(t, err, "no XLA plugin was found")
}

// Devices that share a GPU have a client each, with a part of the memory.
func TestXLAShare(t *testing.T) {
	file := stub(t, t.TempDir()+"/stub.so")
	options := t.TempDir() + "/options"
	t.Setenv("STUB_OPTIONS", options)
	t.Setenv("STUB_DEVICES", "1")
	_, err := backend.Open(2, backend.Options{Backend: "xla:" + file})
	require.EqualError(t, err, "2 devices, but plugin "+file+
		" has 1: use at most 1, or share the first among all where times do not matter")
	require.NoError(t, os.Remove(options))

	devices, err := backend.Open(2, backend.Options{Backend: "xla:" + file, Share: true})
	require.NoError(t, err)
	defer backend.Close(devices)
	require.Len(t, devices, 2)
	require.False(t, devices[0].Backend == devices[1].Backend, "each has a client")
	given, err := os.ReadFile(options)
	require.NoError(t, err)
	for _, want := range []string{
		"preallocate=false\n", "memory_fraction=0.4\n", "visible_devices=1 devices, first 0\n",
	} {
		require.Equal(t, 2, strings.Count(string(given), want), "%s in %s", want, given)
	}
}

// Every program of every kind of network can be built for XLA. The stub compiles anything, so
// this shows no more than that.
func TestXLAPrograms(t *testing.T) {
	file := stub(t, t.TempDir()+"/stub.so")
	devices, err := backend.Open(1, backend.Options{Backend: "xla:" + file})
	require.NoError(t, err)
	defer backend.Close(devices)
	backend := devices[0].Backend
	for name, n := range map[string]network.Network{
		"gpt": exectest.MiniGPT(t), "mlp": exectest.MiniMLP(t),
		"vgg": exectest.Preset(t, "vgg-mini-pipeline"), "vgg pooled": exectest.Preset(t, "vgg-mini"),
	} {
		for _, recompute := range []kernels.Recompute{kernels.SaveAll, kernels.RepeatLayer, kernels.RepeatStage} {
			stage, err := kernels.Compile(backend, n.Layers, kernels.Options{Samples: 2, Recompute: recompute})
			require.NoError(t, err, "%s, recompute %d", name, recompute)
			for _, optimizer := range []string{"sgd", "sgd-momentum", "adam", "adamw"} {
				updates, err := kernels.NewUpdates(backend, stage.Parameters(), kernels.DefaultOptimizer(optimizer))
				require.NoError(t, err, "%s, %s", name, optimizer)
				updates.Close()
			}
			stage.Close()
		}
	}
}

// XLA is told which result may take the memory of which input, and says what a program takes.
func TestXLAMemory(t *testing.T) {
	devices, err := backend.Open(1, backend.Options{Backend: "xla:" + stub(t, t.TempDir()+"/stub.so")})
	require.NoError(t, err)
	defer backend.Close(devices)
	text := t.TempDir() + "/program"
	t.Setenv("STUB_PROGRAM", text)
	shape := shapes.Make(dtypes.Float32, 2, 3)
	p, err := backend.Compile(devices[0].Backend, "sums", func(b *backend.Inputs) []*graph.Node {
		x, y, z := b.Input("x", shape), b.Input("y", shape), b.Input("z", shape)
		sum := graph.Add(y, z)
		b.Replace(z, sum)
		return []*graph.Node{graph.Mul(x, y), sum}
	})
	require.NoError(t, err)
	program, err := os.ReadFile(text)
	require.NoError(t, err)
	require.Contains(t, string(program),
		"@main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>, %z: tensor<2x3xf32> {tf.aliasing_output = 1 : i32}) ->")
	require.Equal(t, backend.ProgramSizes{Arguments: 100, Outputs: 50, Shared: 20, Temporaries: 7}, p.Sizes)
	// A device counts the two results, of 24 bytes each; less, if the sum is to be in place.
	require.EqualValues(t, 0, p.Unseen())
	p.InPlace = func(name string) bool { return name == "z" }
	require.EqualValues(t, 50-20+7-24, p.Unseen())
}

// gomlx takes a plugin's kind from the letters of its name, and lets CUDA's products drop bits.
// psim goes by the platform's name, whatever the path says.
func TestXLAPlatform(t *testing.T) {
	for platform, want := range map[string]string{
		"cuda": "preallocate=false\npreallocate=false\nvisible_devices=1 devices, first 0\n",
		"cpu":  "preallocate=false\n", // of the first client only
	} {
		folder := t.TempDir()
		t.Setenv("STUB_PLATFORM", platform)
		t.Setenv("STUB_OPTIONS", folder+"/options")
		plugin, err := backend.PluginAt(stub(t, folder+"/no,cpu,nor/cuda.so"))
		require.NoError(t, err)
		devices, err := backend.OpenXLA(plugin, backend.ClientOptions{Visible: []int{0}})
		require.NoError(t, err)
		opened := devices[0].Backend.(*xla.Backend)
		require.Equal(t, platform == "cpu", opened.IsCPU())
		if runtime.GOARCH == "amd64" {
			require.Equal(t, platform == "cuda", opened.IsCUDA())
		}
		backend.Close(devices)
		given, err := os.ReadFile(folder + "/options")
		require.NoError(t, err)
		lines := slices.Sorted(strings.Lines(string(given))) // gomlx gives them in any order
		require.Equal(t, want, strings.Join(lines, ""))
		info, err := plugin.Inspect()
		require.NoError(t, err)
		require.Equal(t, backend.PluginInfo{Version: "0.104", Platform: platform, Plain: platform == "cpu"}, info)
	}
}

// A plugin that refuses options it does not know gets none.
func TestXLAPlain(t *testing.T) {
	t.Setenv("STUB_PLAIN", "1")
	devices, err := backend.Open(2, backend.Options{Backend: "xla:" + stub(t, t.TempDir()+"/stub.so")})
	require.NoError(t, err)
	backend.Close(devices)
}

// A client of CPUs has a few devices; more are of further clients.
func TestXLAManyCPUs(t *testing.T) {
	t.Setenv("STUB_PLATFORM", "cpu")
	devices, err := backend.Open(5, backend.Options{Backend: "xla:" + stub(t, t.TempDir()+"/stub.so")})
	require.NoError(t, err)
	require.Len(t, devices, 5)
	require.True(t, devices[0].Backend == devices[1].Backend)
	require.False(t, devices[0].Backend == devices[4].Backend)
	backend.Close(devices)
}

// Clients on cores stay, with what they have compiled, once all of their devices are closed: also where a process
// shares one device among several ranks, which takes a client for each.
func TestXLASharedCPUsStay(t *testing.T) {
	t.Setenv("STUB_PLATFORM", "cpu")
	o := backend.Options{Backend: "xla:" + stub(t, t.TempDir()+"/stub.so"), Share: true}
	clients := func() map[compute.Backend]bool {
		devices, err := backend.Open(2, o)
		require.NoError(t, err)
		defer backend.Close(devices)
		return map[compute.Backend]bool{devices[0].Backend: true, devices[1].Backend: true}
	}
	first := clients()
	require.Len(t, first, 2)
	require.Equal(t, first, clients())
}

// XLA's devices on cores have one each, and a process each. While they are open, the process is kept there, as
// far as the system can. GPUs have no cores.
func TestXLAOnCores(t *testing.T) {
	t.Setenv("STUB_PLATFORM", "cpu")
	o := backend.Options{Backend: "xla:" + stub(t, t.TempDir()+"/stub.so"), Oversubscribe: true}
	require.Zero(t, o.Cores(), "not known yet")
	settled, apart, err := o.Settle()
	require.NoError(t, err)
	require.True(t, apart)
	require.Equal(t, 1, settled.CoresPerWorker)
	require.Equal(t, runtime.GOMAXPROCS(0), settled.Cores())
	all, unknown := cores.Allowed()
	require.Equal(t, unknown == nil, settled.Pinned())
	for devices := range 2 {
		opened, err := backend.OpenRanks(t.Context(), 1+devices, settled, nil)
		require.NoError(t, err)
		require.Equal(t, devices == 0, opened.Comparable, "devices of one process share its threads")
		if now, err := cores.Allowed(); err == nil {
			require.Equal(t, all[:min(1+devices, len(all))], now)
		}
		backend.Close(opened.Devices)
		backend.Close(opened.Devices[:1])
		if now, err := cores.Allowed(); err == nil {
			require.Equal(t, all, now)
		}
	}
	settled.Oversubscribe = false
	require.ErrorContains(t, settled.Check(1+runtime.GOMAXPROCS(0)), "a device computes on a core of its own")
	settled.Share = true
	_, err = backend.Open(1, settled)
	require.EqualError(t, err, "devices that are shared have no cores of their own: leave one of the two out")
	o.Share = true
	_, apart, err = o.Settle()
	require.NoError(t, err)
	require.False(t, apart)

	t.Setenv("STUB_PLATFORM", "cuda")
	gpus := backend.Options{Backend: "xla:" + stub(t, t.TempDir()+"/stub.so")}
	settled, apart, err = gpus.Settle()
	require.NoError(t, err)
	require.Equal(t, gpus, settled)
	require.False(t, apart)
	gpus.CoresPerWorker = 1
	const want = "cores per worker are of devices that are cores; those of the plugin are of the platform cuda"
	_, _, err = gpus.Settle()
	require.EqualError(t, err, want)
	_, err = backend.Open(1, gpus)
	require.EqualError(t, err, want)
	if now, err := cores.Allowed(); err == nil {
		require.Equal(t, all, now)
	}
}

// What a plugin prints on standard output goes to standard error.
func TestXLAIsSilent(t *testing.T) {
	file := stub(t, t.TempDir()+"/stub.so")
	t.Setenv("STUB_SAY", "library chatter")
	read, write, err := os.Pipe()
	require.NoError(t, err)
	kept, err := syscall.Dup(1)
	require.NoError(t, err)
	require.NoError(t, syscall.Dup3(int(write.Fd()), 1, 0))
	devices, err := backend.Open(1, backend.Options{Backend: "xla:" + file})
	os.Stdout.WriteString("ours\n")
	require.NoError(t, syscall.Dup3(kept, 1, 0))
	require.NoError(t, err)
	backend.Close(devices)
	write.Close()
	printed, err := io.ReadAll(read)
	require.NoError(t, err)
	require.Equal(t, "ours\n", string(printed))
}

func TestXLAFailures(t *testing.T) {
	for what, want := range map[string]string{
		"STUB_FAIL=initialize": "the stub refuses to start",
		"STUB_FAIL=client":     "(PJRT 0.104): making a client: PJRT error (code=13): no CUDA-capable device",
		"STUB_FAIL=compile":    "a trial program",
		"STUB_FAIL=execute":    "out of memory",
		"STUB_WRONG=1":         "a trial program computed [-300 -297 -288] and so on instead of [-200 -198 -192]",
		"STUB_DEVICES=0":       "it has no devices",
		"STUB_MAJOR=1":         "it has PJRT 1.104, but this psim needs 0.x",
		"STUB_CHANGE=1":        "copying from device 0 to device 1 and back: 1009 numbers came back changed",
	} {
		t.Run(what, func(t *testing.T) {
			file := stub(t, t.TempDir()+"/stub.so")
			name, value, _ := strings.Cut(what, "=")
			t.Setenv(name, value)
			_, err := backend.Open(2, backend.Options{Backend: "xla:" + file})
			require.ErrorContains(t, err, want)
			if name != "STUB_CHANGE" {
				require.ErrorContains(t, err, "plugin "+file)
			}
		})
	}
}

func TestNoXLAPlugin(t *testing.T) {
	folder := t.TempDir()
	text := folder + "/text.so"
	require.NoError(t, os.WriteFile(text, []byte("not a library\n"), 0o644))
	empty := folder + "/empty.c"
	require.NoError(t, os.WriteFile(empty, []byte("int something_else;\n"), 0o644))
	library := compileC(t, folder+"/cuda/library.so", empty)
	for file, want := range map[string]string{
		folder + "/none.so": "no such file",
		text:                "it does not load: ",
		library:             "not a PJRT plugin: it lacks the function GetPjrtApi",
		"relative.so":       "the path of a plugin must be absolute",
	} {
		_, err := backend.Open(1, backend.Options{Backend: "xla:" + file})
		require.ErrorContains(t, err, want)
	}
}

// A plugin needs a library, which needs another one. Both are next to the plugin, where the
// system's loader does not look, and the first in order needs the second.
func TestXLALibraries(t *testing.T) {
	packages := t.TempDir() + "/site-packages"
	code := func(name, text string) string {
		file := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		return file
	}
	cudart := compileC(t, packages+"/nvidia/cuda_runtime/lib/libcudart.so.99",
		code("runtime.c", "int number(void) { return 41; }"), "-Wl,-soname,libcudart.so.99")
	blas := compileC(t, packages+"/nvidia/cublas/lib/libcublas.so.99",
		code("blas.c", "int number(void); int next(void) { return number() + 1; }"), "-Wl,-soname,libcublas.so.99",
		cudart)
	file := stub(t, packages+"/jax_plugins/xla_cuda12/xla_cuda_plugin.so", "-DNEEDED=next", blas,
		"-Wl,--allow-shlib-undefined")
	require.NoError(t, os.MkdirAll(packages+"/nvidia/cuda_nvcc/nvvm/libdevice", 0o755))
	t.Setenv("XLA_FLAGS", "--xla_dump_to=/nowhere")
	t.Setenv("TF_CPP_MIN_LOG_LEVEL", "3") // set by gomlx, not by the user

	plugin, err := backend.PluginAt(file)
	require.NoError(t, err)
	info, err := plugin.Inspect()
	require.NoError(t, err)
	require.Equal(t, "0.42", info.Version)
	require.Equal(t, "--xla_dump_to=/nowhere --xla_gpu_cuda_data_dir="+packages+"/nvidia/cuda_nvcc",
		os.Getenv("XLA_FLAGS"))

	if start, err := os.ReadFile("/proc/self/environ"); err == nil &&
		!strings.Contains(string(start), "TF_CPP_MIN_LOG_LEVEL=") {
		require.Equal(t, "2", os.Getenv("TF_CPP_MIN_LOG_LEVEL"), "XLA's errors are shown")
	}

	// Without the second library nothing works, and the error says what to try.
	require.NoError(t, os.RemoveAll(packages+"/nvidia/cublas/lib/libcublas.so.99"))
	broken := stub(t, packages+"/jax_plugins/xla_cuda12/other.so", "-DNEEDED=absent", "-Wl,-z,now")
	plugin, err = backend.PluginAt(broken)
	require.NoError(t, err)
	_, err = plugin.Inspect()
	require.ErrorContains(t, err, "it does not load: ")
	require.ErrorContains(t, err, "\nif a library is missing, run this before psim:\n  export LD_LIBRARY_PATH="+packages+
		"/nvidia/cublas/lib:")
}
