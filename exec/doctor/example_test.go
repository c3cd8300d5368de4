package doctor_test

import (
	"fmt"
	"io"

	"psim/exec/doctor"
)

// The backend go works on every machine.
func ExampleExamine() {
	d := doctor.Examine("v1", io.Discard)
	fmt.Println(d.GoBack.Works, d.Err("go"))
	// Output: true <nil>
}
