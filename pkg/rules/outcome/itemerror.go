package outcome

import "fmt"

// ItemTask is the [CallError.Item] of a request about the task of an earlier call.
const ItemTask = "task"

// itemMessage returns the text of [CallError.Message] for a request about a prompt, a resource or a
// task. It returns "" if the text for tools is right for this request too.
func (e *CallError) itemMessage(serverID string) string {
	switch {
	case e.Item == ItemTask && e.Delivered && e.Outcome.Reason != ReasonTooLarge:
		return e.happened(serverID) + " The request about the task was sent. " + taskAgain
	case e.Item == ItemTask && !e.Delivered:
		return e.unsent(serverID) + " The request about the task was not carried out. " + taskAgain
	case e.Item == "" || !e.Delivered:
		return ""
	case e.Outcome.Reason == ReasonTooLarge:
		return fmt.Sprintf("The %s is too large to pass on (over %.3g MiB). Nothing of it was passed on.", e.Item, e.limit())
	}
	return e.happened(serverID) + " The request was sent; to ask for a " + e.Item + " again does no harm."
}

// taskAgain follows a failed request about a task: the tool's call has succeeded before.
const taskAgain = "Send it again later. Do not call the tool again: its task may still run."

// limit returns how many MiB a result may have.
func (e *CallError) limit() float64 {
	if e.Limit == 0 {
		return MaxResult / float64(1<<20)
	}
	return float64(e.Limit) / (1 << 20)
}
