//go:build !(amd64 && goexperiment.simd)

package backend

// SIMDCompiled says whether the Go backend's matrix kernels use the vector instructions of the
// processor. The toolchain decides that: GOEXPERIMENT=simd.
const SIMDCompiled = false

// SIMD names the vector instructions that these kernels use on this processor; "" if there are
// none.
func SIMD() string { return "" }
