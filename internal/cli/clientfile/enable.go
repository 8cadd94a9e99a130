package clientfile

import (
	"encoding/json"
	"strconv"
)

// EnableServer returns a config with the server of mcpServers enabled or disabled. It returns data
// itself if nothing has to change. Files of other programs have the member disabled instead.
func EnableServer(path string, data []byte, server string, on bool) ([]byte, error) {
	root, err := parseJSON(path, data)
	if err != nil {
		return nil, err
	}
	at := root.Get("mcpServers").Get(server)
	member, value := "enabled", on
	if at.Get("disabled") != nil {
		member, value = "disabled", !on
	}
	if is := at.Get(member); is.Is(value) || is == nil && on {
		return data, nil
	}
	if at.Get("enabled") != nil && member == "disabled" { // they may not contradict each other
		data, err = SetJSON(path, data, []string{"mcpServers", server, "enabled"}, nil)
		if err != nil {
			return nil, err
		}
	}
	to := json.RawMessage(strconv.FormatBool(value))
	return SetJSON(path, data, []string{"mcpServers", server, member}, to)
}
