package outcome

import "fmt"

// itemMessage returns the text of [CallError.Message] for a request of a prompt or a resource. It
// returns "" if the text for tools is right for this request too.
func (e *CallError) itemMessage(serverID string) string {
	switch {
	case e.Item == "" || !e.Delivered:
		return ""
	case e.Outcome.Reason == ReasonTooLarge:
		return fmt.Sprintf("The %s is too large to pass on (over %.3g MiB). Nothing of it was passed on.", e.Item, e.limit())
	}
	return e.happened(serverID) + " The request was sent; to ask for a " + e.Item + " again does no harm."
}

// limit returns how many MiB a result may have.
func (e *CallError) limit() float64 {
	if e.Limit == 0 {
		return MaxResult / float64(1<<20)
	}
	return float64(e.Limit) / (1 << 20)
}
