package programs

// Keep makes the mask of a microbatch whose samples have so many elements.
func Keep(d Draw, layer, place string, rate float64, samples, elements int) []bool {
	return mask{dropout{place, rate}, layer, []int{samples, elements}}.keep(d, samples)
}
