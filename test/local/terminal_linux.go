package local

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// Terminal returns a terminal on which a person has already typed a text. shown closes the terminal
// and returns the printed text.
func Terminal(t testing.TB, typed string) (tty *os.File, shown func() string) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.OK(t, err)
	require.OK(t, unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	require.OK(t, err)
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.OK(t, err)
	printed := make(chan string, 1)
	go func() {
		// reading ends with an error after the last user has closed the terminal
		all, _ := io.ReadAll(person)
		printed <- strings.ReplaceAll(string(all), "\r\n", "\n")
	}()
	shown = sync.OnceValue(func() string {
		defer person.Close()
		_ = tty.Close()
		return <-printed
	})
	t.Cleanup(func() { shown() })
	_, err = io.WriteString(person, typed)
	require.OK(t, err)
	return tty, shown
}
