package backend_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/backend"
)

// touch makes an empty file below folder, and returns its path.
func touch(t testing.TB, folder, name string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	return path
}

// search looks below a temporary root, with these variables.
func search(root string, variables map[string]string) backend.PluginSearch {
	return backend.PluginSearch{Root: root, Getenv: func(name string) string { return variables[name] }}
}

// files returns the paths of plugins.
func files(plugins []backend.Plugin) (list []string) {
	for _, p := range plugins {
		list = append(list, p.File)
	}
	return list
}

func TestPluginPlaces(t *testing.T) {
	root := t.TempDir()
	variables := map[string]string{
		"VIRTUAL_ENV": root + "/venv", "CONDA_PREFIX": root + "/conda", "HOME": root + "/home",
		"PYENV_ROOT": root + "/pyenv",
	}
	const inPackages = "/jax_plugins/xla_cuda12/xla_cuda_plugin.so"
	want := []string{
		touch(t, root, "venv/lib/python3.12/site-packages"+inPackages),
		touch(t, root, "conda/lib/python3.11/site-packages"+inPackages),
		touch(t, root, "home/.local/lib/python3.10/site-packages"+inPackages),
		touch(t, root, "pyenv/versions/3.13.1/lib/python3.13/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so"),
		touch(t, root, "usr/local/lib/python3.12/site-packages"+inPackages),
		touch(t, root, "usr/local/lib/python3.12/dist-packages"+inPackages),
		touch(t, root, "usr/lib/python3/dist-packages"+inPackages),
		touch(t, root, "venv/lib/python3.12/site-packages/fastatomstruct_xla_cpu/libpjrt_cpu.so"),
		touch(t, root, "usr/lib/python3/dist-packages/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"),
		touch(t, root, "venv/lib/python3.12/site-packages/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so"),
		touch(t, root, "home/.local/lib/go-xla/nvidia/pjrt_c_api_cuda_plugin.so"),
		touch(t, root, "home/.local/lib/go-xla/fastatomstruct_xla_cpu/libpjrt_cpu.so"),
		touch(t, root, "usr/local/lib/go-xla/pjrt_c_api_cpu_v0.83.1_plugin.so"),
	}
	touch(t, root, "venv/lib/python3.12/site-packages/jax_plugins/xla_cuda12/libother.so")
	require.NoError(t, os.Symlink("lib", root+"/venv/lib64"))
	found, looked := search(root, variables).Plugins()
	require.Equal(t, want, files(found))
	require.Contains(t, looked, root+"/usr/lib/python3*/dist-packages/jax_plugins/xla_cuda*")

	first, err := search(root, variables).Find("")
	require.NoError(t, err)
	require.Equal(t, want[0], first.File)
	delete(variables, "PYENV_ROOT")
	touch(t, root, "home/.pyenv/versions/3.9.1/lib/python3.9/site-packages"+inPackages)
	found, _ = search(root, variables).Plugins()
	require.Len(t, found, len(want))
}

func TestPluginVariable(t *testing.T) {
	root := t.TempDir()
	other := touch(t, root, "one/other.so")
	cuda := touch(t, root, "two/pjrt_c_api_cuda_plugin.so")
	cpu := touch(t, root, "two/pjrt-plugin-cpu.so")
	touch(t, root, "usr/local/lib/go-xla/pjrt_c_api_cuda_plugin.so") // not looked at
	s := search(root, map[string]string{backend.PluginVariable: root + "/two:relative:" + other})
	found, looked := s.Plugins()
	require.Equal(t, []string{cuda, cpu, other}, files(found))
	require.Equal(t, []string{root + "/two", other}, looked)

	_, err := search(root, map[string]string{backend.PluginVariable: root + "/empty"}).Find("")
	require.EqualError(t, err, "no XLA plugin was found: PJRT_PLUGIN_LIBRARY_PATH="+root+
		"/empty does not contain the absolute path of a plugin; correct it, or unset it to search the usual places")
}

func TestNoPlugin(t *testing.T) {
	root := t.TempDir()
	_, err := search(root, map[string]string{"HOME": root + "/home"}).Find("")
	require.ErrorContains(t, err, `install JAX's for GPUs (pip install "jax[cuda12]"), or one for CPUs (pip install `+
		backend.CPUPlugin+`), or set PJRT_PLUGIN_LIBRARY_PATH to the plugin's file or folder`)
	for _, place := range []string{
		"/home/.local/lib/python3*/site-packages/jax_plugins/xla_cuda*",
		"/home/.pyenv/versions/*/lib/python3*/site-packages/jax_plugins/xla_cuda*",
		"/usr/local/lib/go-xla",
	} {
		require.ErrorContains(t, err, "\n  "+root+place)
	}
}

func TestPluginAt(t *testing.T) {
	root := t.TempDir()
	for file, want := range map[string]string{
		"plugin.so":       `plugin "plugin.so": the path must be absolute`,
		root + "/none.so": "plugin " + root + "/none.so: no such file",
		root:              "plugin " + root + ": not a file; give the path of the shared library (.so) itself",
	} {
		_, err := backend.PluginAt(file)
		require.EqualError(t, err, want)
	}
}

// NVIDIA's packages, in JAX's layout for CUDA 12 and in gomlx's with CUDA 13.
func TestPluginLibraries(t *testing.T) {
	root := t.TempDir()
	packages := root + "/lib/python3.12/site-packages"
	file := touch(t, packages, "jax_plugins/xla_cuda12/xla_cuda_plugin.so")
	touch(t, packages, "nvidia/cublas/lib/libcublas.so.12")
	touch(t, packages, "nvidia/cudnn/lib/libcudnn.so.9")
	touch(t, packages, "nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc")
	p, err := backend.PluginAt(file)
	require.NoError(t, err)
	require.Equal(t, []string{packages + "/nvidia/cublas/lib", packages + "/nvidia/cudnn/lib"}, p.Libraries)
	require.Equal(t, packages+"/nvidia/cuda_nvcc", p.Toolkit)
	require.Equal(t, "export LD_LIBRARY_PATH="+packages+"/nvidia/cublas/lib:"+packages+
		"/nvidia/cudnn/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}", p.Export())

	link := root + "/link.so" // libraries are next to the file that a link points to
	require.NoError(t, os.Symlink(file, link))
	linked, err := backend.PluginAt(link)
	require.NoError(t, err)
	require.Equal(t, p.Libraries, linked.Libraries)

	file = touch(t, root, "go-xla/nvidia/pjrt_c_api_cuda_plugin.so")
	touch(t, root, "go-xla/nvidia/cu13/lib/libcudart.so.13")
	touch(t, root, "go-xla/nvidia/cu13/nvvm/libdevice/libdevice.10.bc")
	p, err = backend.PluginAt(file)
	require.NoError(t, err)
	require.Equal(t, []string{root + "/go-xla/nvidia/cu13/lib"}, p.Libraries)
	require.Equal(t, root+"/go-xla/nvidia/cu13", p.Toolkit)

	p, err = backend.PluginAt(touch(t, root, "alone/deep/down/there/plugin.so"))
	require.NoError(t, err)
	require.Empty(t, p.Libraries)
	require.Empty(t, p.Export())
}

// A trial of the Go backend leaves nothing on the device.
func TestTry(t *testing.T) { require.NoError(t, opened(t).Try()) }

// opened opens a device for a test.
func opened(t testing.TB) *backend.LocalDevice {
	d, err := backend.OpenGo(0)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.Zero(t, d.Bytes(), "tensors left on the device")
		d.Close()
	})
	return d
}
