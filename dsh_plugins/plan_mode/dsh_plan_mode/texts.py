"""What models and people read."""

GUIDANCE = (
    "Plan mode is on. Read, search and run commands that change nothing; whatever would change "
    "something is refused. Work out what has to be done, then call `exit_plan_mode` with the whole "
    "plan. Only the user ends plan mode."
)
QUESTION = (
    "The plan is ready. Carry it out? Nothing may be changed before the user agrees; "
    "if nobody can be asked, the plan is the result: give all of it as the answer."
)
APPROVED = (
    "The user agreed. Plan mode ends with this step; carry the plan out from the next one on."
)
NOT_PLANNING = "plan mode is not on: there is no plan to agree to"
ENTERED = "The user switched plan mode on: look and plan, but change nothing."
LEFT = "The user ended plan mode: from now on you may change things."
