package identity

import "slices"

// Operation is something that is asked of the system. Its name is also that of its entries in the audit.
type Operation string

// The operations.
const (
	Me               Operation = "me"
	ListConnectors   Operation = "connectors.list"
	GetConnector     Operation = "connectors.get"
	CreateConnector  Operation = "connectors.create"
	UpdateConnector  Operation = "connectors.update"
	DeleteConnector  Operation = "connectors.delete"
	SyncConnector    Operation = "connectors.sync"
	EnableConnector  Operation = "connectors.enable"
	DisableConnector Operation = "connectors.disable"
	ConnectorRuns    Operation = "connectors.runs"
	ConnectorStatus  Operation = "connectors.status"
	WhyConnector     Operation = "connectors.why"
	GlanceConnectors Operation = "connectors.glance"
	ListQueue        Operation = "queue.list"
	PreviewSchedule  Operation = "connectors.schedule.preview"
	BeginConsent     Operation = "connectors.consents.begin"
	GetConsent       Operation = "consents.get"
	MakeBadge        Operation = "connectors.badge.make"
	RevokeBadge      Operation = "connectors.badge.revoke"
	ListFiles        Operation = "files.list"
	GetFile          Operation = "files.get"
	UploadFiles      Operation = "files.upload"
	PutFile          Operation = "files.put"
	DeleteFile       Operation = "files.delete"
	ListDocuments    Operation = "documents.list"
	FailedDocuments  Operation = "documents.failed"
	FindDocuments    Operation = "documents.find"
	Search           Operation = "search"
	ListRuns         Operation = "runs.list"
	GetRun           Operation = "runs.get"
	CancelRun        Operation = "runs.cancel"
	ListTypes        Operation = "types.list"
	PutType          Operation = "types.put"
	ListUsers        Operation = "users.list"
	ListLinks        Operation = "users.links.list"
	GetUser          Operation = "users.get"
	UpdateUser       Operation = "users.update"
	RemoveUser       Operation = "users.remove"
	LinkUser         Operation = "users.links.put"
	UnlinkUser       Operation = "users.links.remove"
	ShowStatus       Operation = "status"
	ListTokens       Operation = "tokens.list"
	CreateToken      Operation = "tokens.create"
	RevokeToken      Operation = "tokens.revoke"
	ListAudit        Operation = "audit.list"
	ListLocks        Operation = "locks.list"
	ReleaseLock      Operation = "locks.release"
	ListLimits       Operation = "limits.list"
	GetLimit         Operation = "limits.get"
	PutLimit         Operation = "limits.put"
	DeleteLimit      Operation = "limits.delete"
	ListKeyLimits    Operation = "limits.keys.list"
	GetKeyLimit      Operation = "limits.keys.get"
	PutKeyLimit      Operation = "limits.keys.put"
	DeleteKeyLimit   Operation = "limits.keys.delete"
	ListCalendars    Operation = "calendars.list"
	GetCalendar      Operation = "calendars.get"
	WatchEvents      Operation = "events.watch"
	WatchRun         Operation = "runs.watch"
	PutCalendar      Operation = "calendars.put"
	ReadCalendar     Operation = "calendars.read"
	DeleteCalendar   Operation = "calendars.delete"
	ListBlackouts    Operation = "blackouts.list"
	GetBlackout      Operation = "blackouts.get"
	PutBlackout      Operation = "blackouts.put"
	DeleteBlackout   Operation = "blackouts.delete"
	ListConditions   Operation = "conditions.list"
	GetCondition     Operation = "conditions.get"
	ListDeadLetters  Operation = "deadletters.list"
	GetDeadLetter    Operation = "deadletters.get"
	ReplayDeadLetter Operation = "deadletters.replay"
	DropDeadLetter   Operation = "deadletters.drop"

	GroupDeadLetters  Operation = "deadletters.groups"
	ReplayDeadLetters Operation = "deadletters.replay_group"
	DropDeadLetters   Operation = "deadletters.drop_group"
	// OperateDeadLetters begins an operation on very many.
	OperateDeadLetters Operation = "deadletters.operate"

	ListWebhooks   Operation = "webhooks.list"
	GetWebhook     Operation = "webhooks.get"
	CreateWebhook  Operation = "webhooks.create"
	UpdateWebhook  Operation = "webhooks.update"
	DeleteWebhook  Operation = "webhooks.delete"
	RotateWebhook  Operation = "webhooks.secret.rotate"
	TestWebhook    Operation = "webhooks.test"
	ListDeliveries Operation = "webhooks.deliveries.list"
	ReplayDelivery Operation = "webhooks.deliveries.replay"

	ListJobs            Operation = "jobs.list"
	ListScheduledJobs   Operation = "scheduled_jobs.list"
	GetScheduledJob     Operation = "scheduled_jobs.get"
	UpdateScheduledJob  Operation = "scheduled_jobs.update"
	EnableScheduledJob  Operation = "scheduled_jobs.enable"
	DisableScheduledJob Operation = "scheduled_jobs.disable"
	TriggerScheduledJob Operation = "scheduled_jobs.trigger"
	ScheduledJobHistory Operation = "scheduled_jobs.history"

	PreviewOperation Operation = "operations.preview"
	CreateOperation  Operation = "operations.create"
	ListOperations   Operation = "operations.list"
	GetOperation     Operation = "operations.get"
	OperationResults Operation = "operations.results"
	CancelOperation  Operation = "operations.cancel"
)

// Right is what somebody must have of a connector that an operation is about.
type Right int

// The rights.
const (
	// Nothing: the operation is about no connector, or leaves out what is not seen.
	Nothing Right = iota
	ToSee
	ToChange
	ToCreate
)

// Rule is who may do an operation.
type Rule struct {
	// Scope is what the token must have.
	Scope Scope
	// Role is the least that the user must have.
	Role Role
	// Right is what the user must have of the connector.
	Right Right
}

// rules is the one table of who may do what.
var rules = map[Operation]Rule{
	Me:               {Read, User, Nothing},
	ListConnectors:   {Read, User, Nothing},
	GetConnector:     {Read, User, ToSee},
	CreateConnector:  {Write, User, ToCreate},
	UpdateConnector:  {Write, User, ToChange},
	DeleteConnector:  {Write, User, ToChange},
	SyncConnector:    {Operate, User, ToChange},
	EnableConnector:  {Operate, User, ToChange},
	DisableConnector: {Operate, User, ToChange},
	ConnectorRuns:    {Read, User, ToSee},
	ConnectorStatus:  {Read, User, ToSee},
	WhyConnector:     {Read, User, ToSee},
	GlanceConnectors: {Read, User, Nothing},
	ListQueue:        {Read, User, Nothing},
	PreviewSchedule:  {Read, User, ToSee},
	BeginConsent:     {Write, User, ToChange},
	GetConsent:       {Read, User, Nothing},
	MakeBadge:        {Write, User, ToChange},
	RevokeBadge:      {Write, User, ToChange},
	ListFiles:        {Read, User, ToSee},
	GetFile:          {Read, User, ToSee},
	UploadFiles:      {Write, User, ToChange},
	PutFile:          {Write, User, ToChange},
	DeleteFile:       {Write, User, ToChange},
	ListDocuments:    {Read, User, ToSee},
	FailedDocuments:  {Read, User, ToSee},
	FindDocuments:    {Read, User, Nothing},
	Search:           {Read, User, Nothing},
	ListRuns:         {Read, User, Nothing},
	GetRun:           {Read, User, ToSee},
	CancelRun:        {Operate, User, ToChange},
	ListTypes:        {Read, User, Nothing},
	PutType:          {Administer, Superadmin, Nothing},
	ListUsers:        {Read, Superadmin, Nothing},
	ListLinks:        {Read, Superadmin, Nothing},
	GetUser:          {Read, Superadmin, Nothing},
	UpdateUser:       {Administer, Superadmin, Nothing},
	RemoveUser:       {Administer, Superadmin, Nothing},
	LinkUser:         {Administer, Superadmin, Nothing},
	UnlinkUser:       {Administer, Superadmin, Nothing},
	ShowStatus:       {Read, Superadmin, Nothing},
	ListTokens:       {Read, User, Nothing},
	CreateToken:      {Write, User, Nothing},
	RevokeToken:      {Write, User, Nothing},
	ListAudit:        {Read, User, Nothing},
	ListLocks:        {Read, Admin, Nothing},
	ReleaseLock:      {Administer, Superadmin, Nothing},
	ListLimits:       {Read, User, Nothing},
	GetLimit:         {Read, User, Nothing},
	PutLimit:         {Administer, Superadmin, Nothing},
	DeleteLimit:      {Administer, Superadmin, Nothing},
	ListKeyLimits:    {Read, Admin, Nothing},
	GetKeyLimit:      {Read, Admin, Nothing},
	PutKeyLimit:      {Administer, Superadmin, Nothing},
	DeleteKeyLimit:   {Administer, Superadmin, Nothing},
	ListCalendars:    {Read, User, Nothing},
	GetCalendar:      {Read, User, Nothing},
	WatchEvents:      {Read, User, Nothing},
	WatchRun:         {Read, User, ToSee},
	PutCalendar:      {Administer, Superadmin, Nothing},
	ReadCalendar:     {Administer, Superadmin, Nothing},
	DeleteCalendar:   {Administer, Superadmin, Nothing},
	ListBlackouts:    {Read, User, Nothing},
	GetBlackout:      {Read, User, Nothing},
	PutBlackout:      {Administer, Superadmin, Nothing},
	DeleteBlackout:   {Administer, Superadmin, Nothing},
	ListConditions:   {Read, Admin, Nothing},
	GetCondition:     {Read, Admin, Nothing},
	ListDeadLetters:  {Read, Superadmin, Nothing},
	GetDeadLetter:    {Read, Superadmin, Nothing},
	ReplayDeadLetter: {Operate, Superadmin, Nothing},
	DropDeadLetter:   {Write, Superadmin, Nothing},

	GroupDeadLetters:   {Read, Superadmin, Nothing},
	ReplayDeadLetters:  {Operate, Superadmin, Nothing},
	DropDeadLetters:    {Write, Superadmin, Nothing},
	OperateDeadLetters: {Operate, Superadmin, Nothing},

	ListWebhooks:   {Read, User, Nothing},
	GetWebhook:     {Read, User, Nothing},
	CreateWebhook:  {Write, User, Nothing},
	UpdateWebhook:  {Write, User, Nothing},
	DeleteWebhook:  {Write, User, Nothing},
	RotateWebhook:  {Write, User, Nothing},
	TestWebhook:    {Operate, User, Nothing},
	ListDeliveries: {Read, User, Nothing},
	ReplayDelivery: {Operate, User, Nothing},

	ListJobs:            {Read, Admin, Nothing},
	ListScheduledJobs:   {Read, Admin, Nothing},
	GetScheduledJob:     {Read, User, ToSee},
	UpdateScheduledJob:  {Write, User, ToChange},
	EnableScheduledJob:  {Operate, User, ToChange},
	DisableScheduledJob: {Operate, User, ToChange},
	TriggerScheduledJob: {Operate, User, ToChange},
	ScheduledJobHistory: {Read, User, ToSee},

	PreviewOperation: {Operate, User, Nothing},
	CreateOperation:  {Operate, User, Nothing},
	ListOperations:   {Read, User, Nothing},
	GetOperation:     {Read, User, Nothing},
	OperationResults: {Read, User, Nothing},
	CancelOperation:  {Operate, User, Nothing},
}

// ScopesOf are the scopes that allow an operation; one of them is enough. What is done to many takes Operate or Write: the operation itself looks whether the token has the
// one of what is to be done to each.
func ScopesOf(operation Operation) []Scope {
	switch operation {
	case PreviewOperation, CreateOperation, CancelOperation, OperateDeadLetters:
		return []Scope{Operate, Write}
	}
	return []Scope{RuleOf(operation).Scope}
}

// Operations are all of them.
func Operations() []Operation {
	all := make([]Operation, 0, len(rules))
	for operation := range rules {
		all = append(all, operation)
	}
	slices.Sort(all)
	return all
}

// RuleOf is the rule of an operation. There is one for each.
func RuleOf(operation Operation) Rule {
	rule, known := rules[operation]
	if !known {
		panic("identity: no rule for " + string(operation)) // a defect of this program
	}
	return rule
}

// Ownership is whose something is.
type Ownership struct {
	UserID  int32
	Scope   string
	GroupID string
	// System: its type is a job.
	System bool
}

// Sees says whether somebody may know that a connector is there.
func (w Who) Sees(of Ownership) bool {
	switch {
	case w.Role == Superadmin:
		return true
	case of.System:
		return w.Role.AtLeast(Admin)
	case of.Scope == "user":
		return of.UserID == w.UserID
	case of.Scope == "group":
		return slices.Contains(w.Groups, of.GroupID)
	}
	return of.Scope == "org"
}

// Changes says whether somebody may change, trigger, switch off or delete a connector.
func (w Who) Changes(of Ownership) bool {
	switch {
	case w.Role == Superadmin:
		return true
	case of.System:
		return false
	case of.Scope == "user":
		return of.UserID == w.UserID
	case of.Scope == "group":
		return slices.Contains(w.ChangeGroups(), of.GroupID)
	}
	return false
}

// Creates says whether somebody may add a connector.
func (w Who) Creates(of Ownership) bool {
	switch {
	case w.Role == Superadmin:
		return true
	case of.System || of.UserID != w.UserID:
		return false
	case of.Scope == "user":
		return true
	case of.Scope == "group":
		return slices.Contains(w.CreateGroups(), of.GroupID)
	}
	return false
}

// Gives says whether somebody may give a connector another owner, scope or type: its owner, and superadmins, as far as they might add what it
// becomes. Who may only change it takes it from nobody.
func (w Who) Gives(of Ownership) bool {
	return w.Role == Superadmin || of.UserID == w.UserID && w.Changes(of)
}
