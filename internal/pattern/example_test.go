package pattern_test

import (
	"fmt"

	"psim/internal/pattern"
)

func ExampleNew() {
	number := pattern.New(`[0-9]+`)
	fmt.Println(number().FindString("4 ranks"))
	// Output: 4
}
