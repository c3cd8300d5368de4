package profiles

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A made event of a trace.
type made struct {
	Ph   string         `json:"ph"`
	Cat  string         `json:"cat,omitempty"`
	Name string         `json:"name"`
	Pid  any            `json:"pid"`
	Tid  any            `json:"tid"`
	Ts   json.Number    `json:"ts"`
	Dur  json.Number    `json:"dur"`
	Args map[string]any `json:"args,omitempty"`
}

// us is a time in microseconds, given in nanoseconds.
func us(ns int64) json.Number {
	return json.Number(fmt.Sprintf("%d.%03d", ns/1000, ns%1000))
}

// onDevice makes a kernel on a stream, with the number of its launch.
func onDevice(name string, stream int, start, end int64, launch int) made {
	args := map[string]any{"device": 0, "stream": stream, "correlation": launch, "block": []int{1, 2}}
	return made{"X", "kernel", name, 0, stream, us(start), us(end - start), args}
}

// onHost makes an event of the host.
func onHost(category, name string, start, end int64, launch int) made {
	return made{"X", category, name, 77, 77, us(start), us(end - start), map[string]any{"correlation": launch}}
}

// text makes a trace of a rank.
func text(t require.TestingT, rank, world int, events []made) []byte {
	data, err := json.Marshal(map[string]any{
		"schemaVersion": 1, "deviceProperties": []any{map[string]any{"id": 0, "name": "NVIDIA H100"}},
		"distributedInfo": map[string]any{"rank": rank, "world_size": world}, "traceEvents": events,
	})
	require.NoError(t, err)
	return data
}

// read reads a trace of events.
func read(t require.TestingT, events []made) *RankProfile {
	p, err := parse(context.Background(), bytes.NewReader(text(t, 3, 8, events)))
	require.NoError(t, err)
	return p
}

const millisecond = int64(time.Millisecond)

// TestClasses: names of kernels as they come from NVIDIA's and AMD's libraries.
func TestClasses(t *testing.T) {
	for name, want := range map[string]Class{
		"nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NTT":                                                                                              Products,
		"void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8>":                                            Products,
		"void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm9x<cutlass::gemm::kernel>>":                                        Products,
		"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k":                                       Products,
		"ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn":                                                                            Products,
		"Cijk_Ailk_Bljk_HHS_BH_MT128x128x16_MI32x32x8x1_SN":                                                                                      Products,
		"void cudnn::cnn::conv2d_grouped_direct_kernel<false, true>":                                                                             Products,
		"cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1":                                                                                      Products,
		"void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1>(cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1::Params)": Products,
		"void epilogue::impl::globalKernel<float, float, float, true, true>(int, int, long, float*, cublasLtEpilogue_t, int)":                    Between,
		"void fbgemm_gpu::permute_2D_data_kernel<false, int, int, decltype(nullptr)>(int, int, int, int const*)":                                 Between,
		"void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 64, 64>(float*, gemm)":                              Between,
		"void at::native::reduce_kernel<128, 4, at::native::f(at::TensorIteratorBase&)::{lambda(int)#1}>(int)":                                   Between,
		"void multi_tensor_apply_kernel<TensorListMetadata<4>, LAMBStage1Functor<float>, float>(long)":                                           Optimizer,
		"triton_tem_fused_mm_3": Products,
		"void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t>": Attention,
		"fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel)":                Attention,
		"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_128x128x128_4x1x1_kernel0_0":    Attention,
		"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)":                        Transfer,
		"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)":                Transfer,
		"ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)":                                         Transfer,
		"rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)":                                     Transfer,
		"Memcpy HtoD (Pinned -> Device)":                                                                    Copies,
		"Memset (Device)":                                                                                   Copies,
		"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>": Optimizer,
		"triton_poi_fused_add_mul_silu_2":                                                                   Between,
		"triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_1":                                                Between,
		"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>":     Between,
		"void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float, float, float>":               Between,
		"void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int=512, bool=1>":                              Between,
	} {
		require.Equal(t, want.String(), kernelClass(name).String(), name)
	}
	for name, want := range map[string]Class{
		"aten::mm": Products, "aten::addmm": Products, "aten::convolution_backward": Products, "aten::add_": Between,
		"aten::_scaled_dot_product_flash_attention_for_cpu_backward": Attention, "c10d::allreduce_": ignored,
		"autograd::engine::evaluate_function: AddmmBackward0": ignored, "AddmmBackward0": ignored, "detach": ignored,
		"torch::autograd::AccumulateGrad": ignored,
	} {
		require.Equal(t, want, operationClass(name), name)
	}
}

// TestNanoseconds: times are read to the nanosecond, whatever their size and form.
func TestNanoseconds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(-4e18, 4e18).Draw(t, "n")
		x := new(big.Rat).SetFrac64(n, 1000)
		got, ok := nanoseconds([]byte(x.FloatString(rapid.IntRange(3, 9).Draw(t, "digits"))))
		require.True(t, ok)
		require.Equal(t, n, got)
		got, ok = nanoseconds([]byte(strconv.FormatInt(n/1000, 10)))
		require.True(t, ok)
		require.Equal(t, n/1000*1000, got)
	})
	for text, want := range map[string]int64{"1.5e3": 1_500_000, "0.0005": 1, "0.00049": 0, "-2": -2000} {
		got, ok := nanoseconds([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "-", `"1"`, "true", "null", "9223372036854775808", "1e300", "99999999999999999", "{}"} {
		_, ok := nanoseconds([]byte(text))
		require.False(t, ok, text)
	}
}

// TestAccount: every moment counts once, for the first class that runs; a plain count of moments agrees.
func TestAccount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p RankProfile
		for range rapid.IntRange(0, 12).Draw(t, "kernels") {
			k := kernel{start: rapid.Int64Range(0, 60).Draw(t, "start"), class: Class(rapid.IntRange(0, int(Copies)).Draw(t, "class"))}
			k.end = k.start + rapid.Int64Range(0, 20).Draw(t, "length")
			k.launch = rapid.Int64Range(0, k.start).Draw(t, "launch")
			if k.class == Transfer {
				k.wait = rapid.Int64Range(0, k.end-k.start).Draw(t, "wait")
			}
			p.kernels = append(p.kernels, k)
		}
		slices.SortStableFunc(p.kernels, func(a, b kernel) int { return int(a.start - b.start) })
		from, to := rapid.Int64Range(0, 40).Draw(t, "from"), rapid.Int64Range(40, 90).Draw(t, "to")
		got := p.account(from, to)
		require.Equal(t, time.Duration(to-from), got.Sum())
		var want ClassTimes
		idle := int64(-1) // since when nothing runs
		var gap time.Duration
		for at := from; at < to; at++ {
			class, late := Idle, 0
			for _, k := range p.kernels {
				if at >= k.start && at < k.end {
					now := k.class
					if at < k.start+k.wait {
						now = Skew
					}
					class = min(class, now)
				}
				if at == k.start && k.end > k.start && late >= 0 && idle >= 0 {
					late = 1
					if k.launch <= idle { // this one could have begun before
						late = -1
					}
				}
			}
			if class == Idle {
				if idle < 0 {
					idle = at
				}
				gap++
				continue
			}
			if late > 0 {
				want[Launches] += gap
			} else {
				want[Idle] += gap
			}
			idle, gap = -1, 0
			want[class]++
		}
		want[Idle] += gap
		require.Equal(t, want, got)
	})
}

// aStep makes a step of layers that begins at a time and takes 100 ms: the host launches it far ahead.
func aStep(number int, begin, host int64, layers int) (list []made) {
	list = append(list, onHost("user_annotation", fmt.Sprintf("ProfilerStep#%d", number), host, host+5*millisecond, 0))
	at, launch := begin, number*1000
	kernel := func(name string, length int64) {
		launch++
		call := host + int64(launch%1000)*1000
		list = append(list, onHost("cuda_runtime", "cudaLaunchKernel", call, call+500, launch))
		list = append(list, onDevice(name, 7, at, at+length, launch))
		at += length
	}
	kernel("indexSelectLargeIndex", millisecond)
	for range layers {
		kernel("nvjet_tst", 4*millisecond)
		kernel("flash_fwd_kernel", 2*millisecond)
		kernel("triton_poi_fused_add_0", millisecond)
	}
	kernel("cunn_SoftMaxForward", millisecond)
	kernel("multi_tensor_apply_kernel<FusedAdamMathFunctor>", 2*millisecond)
	return list
}

// withoutHost leaves out ranges of the host, or its launches as well.
func without(list []made, categories ...string) []made {
	return slices.DeleteFunc(slices.Clone(list), func(e made) bool { return slices.Contains(categories, e.Cat) })
}

// TestSteps: steps are where they ran on the device, though the host had asked for them long before.
func TestSteps(t *testing.T) {
	var list []made
	for i := range 4 {
		list = append(list, aStep(10+i, int64(i+1)*100*millisecond, int64(i)*6*millisecond, 10)...)
	}
	p := read(t, list)
	require.Equal(t, "by what was launched within ProfilerStep", p.found)
	require.Equal(t, []int{3, 8}, []int{p.Rank, p.World})
	require.Equal(t, "NVIDIA H100", p.Device)
	check := func(p *RankProfile, steps int) {
		require.Len(t, p.steps, steps)
		for i, s := range p.steps[:steps-1] {
			require.Equal(t, 100*millisecond, s.end-s.start, i)
			times := p.account(s.start, s.end)
			require.Equal(t, ClassTimes{
				Optimizer: 2e6, Attention: 20e6, Products: 40e6, Between: 12e6, Idle: 26e6,
			}, times)
		}
	}
	check(p, 4)
	require.Equal(t, 10, p.steps[0].number)

	// By annotations of the device, of which streams have one each.
	onStreams := list
	for i := range 4 {
		at := int64(i+1) * 100 * millisecond
		for _, stream := range []int{7, 20} {
			e := onDevice(fmt.Sprintf("ProfilerStep#%d", 10+i), stream, at+int64(stream-7)*millisecond, at+90*millisecond, 0)
			e.Cat = "gpu_user_annotation"
			onStreams = append(onStreams, e)
		}
	}
	p = read(t, onStreams)
	require.Equal(t, "by annotations of the device", p.found)
	check(p, 4)

	// Without any range the order of kernels says it; the last step has no end then.
	p = read(t, without(list, "user_annotation"))
	require.Equal(t, "by the order of kernels, which repeats after 33", p.found)
	require.Len(t, p.steps, 3)
	check(p, 3)

	// Kernels of a CUDA graph have the graph's launch, or none at all.
	var graphs []made
	for i, e := range list {
		if e.Cat == "kernel" {
			e.Args = map[string]any{"stream": 7, "correlation": 1 + i*4/len(list)*1000, "graph id": 5}
		}
		graphs = append(graphs, e)
	}
	for i := range 4 {
		at := int64(i) * 6 * millisecond
		graphs = append(graphs, onHost("cuda_runtime", "cudaGraphLaunch", at+1000, at+2000, 1+i*1000))
	}
	p = read(t, graphs)
	require.Equal(t, "by what was launched within ProfilerStep", p.found)
	check(p, 4)
	p = read(t, without(list, "cuda_runtime"))
	require.Equal(t, "by the order of kernels, which repeats after 33", p.found)
	check(p, 3)

	// One step repeats nothing, although its layers do.
	p = read(t, without(list[:len(list)/4], "user_annotation"))
	require.Contains(t, p.found, "as the whole trace")
	require.Equal(t, 74*millisecond, p.steps[0].end-p.steps[0].start)
}

// TestPeriod: an order is found where whole steps come after each other, from anywhere within the first to anywhere
// within the last.
func TestPeriod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		layer := rapid.SliceOfN(rapid.Int32Range(0, 5), 1, 6).Draw(t, "layer")
		step := []int32{10}
		for range rapid.IntRange(1, 12).Draw(t, "layers") {
			step = append(step, layer...)
		}
		step = append(step, 11, 12)
		var names []int32
		for range rapid.IntRange(3, 6).Draw(t, "steps") {
			names = append(names, step...)
		}
		names = names[rapid.IntRange(0, len(step)-1).Draw(t, "cut"):]
		require.Equal(t, len(step), period(names))
	})
	require.Zero(t, period(nil))
	require.Zero(t, period([]int32{1, 2, 3, 4}))
}

// TestBadInput: one clear error each.
func TestBadInput(t *testing.T) {
	zipped := func(data []byte) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write(data)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return b.Bytes()
	}
	good := text(t, 0, 1, aStep(1, millisecond, 0, 3))
	p, err := parse(context.Background(), bytes.NewReader(zipped(good)))
	require.NoError(t, err)
	require.Len(t, p.kernels, 12)
	event := func(fields string) []byte {
		return []byte(`{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7` + fields + `}]}`)
	}
	for want, data := range map[string][]byte{
		"ends in the middle, at byte 0 of the JSON":                         {},
		"ends in the middle, at byte ":                                      good[:len(good)/2],
		"of the JSON: the file was cut off":                                 zipped(good)[:200],
		"is a list and no object":                                           []byte(`[{"ph": "X"}]`),
		"has no traceEvents":                                                []byte(`{"nodes": [1]}`),
		"has no kernels and no operations":                                  []byte(`{"traceEvents": []}`),
		"there is a GPU: profile with ProfilerActivity.CUDA":                text(t, 0, 1, nil),
		`event 1, "gemm": dur is -3 µs; it must be 0 or more`:               event(`, "ts": 1, "dur": -3`),
		`event 1, "gemm": ts is missing`:                                    event(`, "dur": 3`),
		`event 1, "gemm": "5" cannot be a time in microseconds`:             event(`, "ts": "5"`),
		`event 1, "gemm": ts and dur are too large`:                         event(`, "ts": 9000000000000000, "dur": 9000000000000000`),
		"byte 0: is not JSON":                                               []byte("hello"),
		"byte 16: is not JSON":                                              []byte(`{"traceEvents": NaN}`),
		"events of a device in the category mtia_ccp_events, which psim do": []byte(`{"traceEvents": [{"ph": "X", "cat": "mtia_ccp_events", "ts": 1, "dur": 2, "args": {"stream": 1}}]}`),
		"its gzip is damaged":                                               []byte("\x1f\x8bxxxxxxxxxxxxxxx"),
		"a string or number has more than 64 MB":                            append([]byte(`{"a": "`), bytes.Repeat([]byte("x"), mostString+5<<20)...),
	} {
		_, err := parse(context.Background(), bytes.NewReader(data))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "jsontext", want)
	}
	long := event(`, "ts": 1, "dur": 5, "args": {"x": "` + strings.Repeat("y", 10<<20) + `"}`)
	_, err = parse(context.Background(), bytes.NewReader(long))
	require.NoError(t, err, "a line of 10 MB is one value")
	_, err = Read(context.Background(), "nowhere.json")
	require.EqualError(t, err, "nowhere.json: no such file")
	_, err = Read(context.Background(), t.TempDir())
	require.ErrorContains(t, err, "is not a regular file")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = parse(ctx, bytes.NewReader(text(t, 0, 1, slices.Repeat(aStep(1, 1, 0, 3), 400))))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []int{12, 0, 3, -1}, []int{rankIn("rank-12.x.json"), rankIn("trace_rank0.json.gz"), rankIn("Rank_3.json"), rankIn("a.json")})
}

// FuzzParse: no text makes the reader fail otherwise than by an error, and what is read adds up.
func FuzzParse(f *testing.F) {
	f.Add(text(f, 1, 2, aStep(1, millisecond, 0, 2)))
	f.Add([]byte(`{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1e3, "dur": 5.5, "pid": "a", "tid": 1}]}`))
	f.Add([]byte(`{"deviceProperties": 5, "distributedInfo": {"rank": "x"}, "traceEvents": [[], 1, {"ph": 7, "args": []}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parse(context.Background(), bytes.NewReader(data))
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.NotEmpty(t, p.steps)
		for _, s := range p.steps {
			times := p.account(s.start, s.end)
			require.Equal(t, time.Duration(s.end-s.start), times.Sum())
		}
	})
}

// TestHolistic: idle, compute and exposed communication are those of HolisticTraceAnalysis, to the nanosecond, on its
// own traces, each as a whole. make peers-traces runs it.
func TestHolistic(t *testing.T) {
	said, folder := os.Getenv("PSIM_HOLISTIC"), os.Getenv("PSIM_HOLISTIC_TRACES")
	if said == "" {
		t.Skip("needs HolisticTraceAnalysis: make peers-traces runs it")
	}
	data, err := os.ReadFile(said)
	require.NoError(t, err)
	compared, without := 0, 0
	for line := range strings.Lines(string(data)) {
		var want struct {
			Trace, Error                 string
			Span, Idle, Compute, Exposed int64
		}
		require.NoError(t, json.Unmarshal([]byte(line), &want))
		p, err := Read(context.Background(), filepath.Join(folder, want.Trace))
		if want.Error != "" {
			require.True(t, err != nil || p.Host, "%s: HolisticTraceAnalysis finds %s", want.Trace, want.Error)
			without++
			continue
		}
		require.NoError(t, err)
		end := p.kernels[0].end
		for _, k := range p.kernels {
			end = max(end, k.end)
		}
		times := p.account(p.kernels[0].start, end)
		compute := times[Optimizer] + times[Attention] + times[Products] + times[Between]
		require.Equal(t, []int64{want.Span, want.Idle, want.Compute, want.Exposed}, []int64{
			end - p.kernels[0].start, int64(times[Idle] + times[Launches]), int64(compute), int64(times[Transfer] + times[Messages]),
		}, want.Trace)
		compared++
	}
	require.Greater(t, compared, 10)
	fmt.Printf("%d traces with a GPU are equal; %d have no event of one\n", compared, without)
}
