package gateway_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/golden"
)

// checkAnswer compares an answer, which is compact JSON, with its golden file.
func checkAnswer(t *testing.T, name, answer string) {
	t.Helper()
	golden.JSON(t, filepath.Join("testdata", name+".json"), answer)
	if strings.Contains(answer, "\n") {
		t.Error("the answer is not compact JSON")
	}
}
