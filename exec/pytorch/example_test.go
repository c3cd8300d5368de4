package pytorch_test

import (
	"bytes"
	"context"
	"fmt"

	"psim/configs"
	"psim/exec/pytorch"
	"psim/export"
)

// The smallest GPT-2 trains on two processes of PyTorch, where there is a Python with it.
func ExampleExecute() {
	c, _ := configs.Load("exec", "model.layers=2", "model.hidden=32")
	var program bytes.Buffer
	_, _ = export.WriteTorch(&program, c)
	python, err := pytorch.Find(context.Background())
	if err != nil {
		return
	}
	run, err := pytorch.Execute(context.Background(), pytorch.Options{
		Python: python, Program: program.Bytes(), Steps: 3, Warmup: 1,
	})
	fmt.Println(run.Result.Engine.Name, len(run.Result.Losses), err)
}
