package nearest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/nearest"
)

func ExampleSuggest() {
	fmt.Println("unknown key microbatchs" + nearest.Suggest("microbatchs", []string{"stages", "microbatches"}))
	// Output: unknown key microbatchs; did you mean microbatches?
}

func TestWord(t *testing.T) {
	for word, want := range map[string]string{
		"gpip": "gpipe", "gpiep": "gpipe", "1fb1": "1f1b", "stage": "stages", "zzzzzzz": "", "": "", "a": "", "gp": "", "sta": "stages", "stages": "stages",
	} {
		got, ok := nearest.Word(word, []string{"gpipe", "1f1b", "stages"})
		require.Equal(t, want, got, word)
		require.Equal(t, want != "", ok)
	}
}

func TestKin(t *testing.T) {
	candidates := []string{"llama2-7b", "llama3-8b", "gpt-oss", "llama3-8b", "gpipe"}
	for word, want := range map[string][]string{
		"llama4": {"llama2-7b", "llama3-8b"}, "Llama-3": {"llama3-8b"}, "gptj": {"gpt-oss"}, "gp": nil, "": nil, "zzz": nil,
	} {
		require.Equal(t, want, nearest.Kin(word, candidates), word)
	}
}
