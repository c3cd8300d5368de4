package wiring

// Size counts the tasks of a pipeline before they are made, for tests.
func Size(p Pipeline) (int64, error) {
	p.fill()
	if err := p.check(); err != nil {
		return 0, err
	}
	if _, err := p.arrange(); err != nil {
		return 0, err
	}
	return (&Builder{Pipeline: &p}).size()
}
