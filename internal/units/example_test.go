package units_test

import (
	"fmt"
	"time"

	"psim/internal/units"
)

func Example() {
	forward, _ := units.ParseDuration("1.58s")
	memory, _ := units.ParseBytes("80 GiB")
	network, _ := units.ParseRate("100Gb/s")
	device, _ := units.ParseFLOPS("312TFLOP/s")
	fmt.Println(forward, memory, network, device)

	_, err := units.ParseDuration("20")
	fmt.Println("times.forward:", err)
	_, err = units.ParseBytes("10Gb")
	fmt.Println("memory.limit:", err)
	// Output:
	// 1.58s 80GiB 12.5GB/s 312TFLOP/s
	// times.forward: "20" has no unit; write for example "20ms"
	// memory.limit: "10Gb" is in bits, since b is bits; write "10GB" for bytes, or "1.25GB" for that many bits
}

func ExampleFormatDuration() {
	fmt.Println(units.FormatDuration(33 * time.Millisecond))
	fmt.Println(units.FormatDuration(83400 * time.Millisecond))
	// Output:
	// 33.0 ms
	// 1 min 23.4 s
}

func ExampleFormatCount() {
	fmt.Println(units.FormatCount(124439808), "parameters,", units.FormatBytes(124439808*4))
	// Output:
	// 124,439,808 parameters, 498 MB
}

func ExampleCommonDivisor() {
	fmt.Println(units.CommonDivisor(30*time.Millisecond, 75*time.Millisecond), units.CommonDivisor[int64](0, 4))
	// Output: 15ms 4
}
