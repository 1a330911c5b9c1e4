-- weft's submission hook. Batch jobs that ask for GPUs are held until weft starts them; what a job says about itself in
-- WEFT_DESCRIPTION (sbatch --export=ALL,WEFT_DESCRIPTION='model=resnet50 iterations=1000') goes into its comment.
-- Everything else passes untouched. Keep your own rules: call these two functions from yours.

local partitions = { @PARTITIONS@ }  -- empty: all
local owners = { @OWNERS@ }          -- who may release jobs: those who run weft
local keys = { @KEYS@ }

local function contains(list, value)
    for _, entry in ipairs(list) do
        if entry == value then return true end
    end
    return false
end

local function ours(partition)
    if #partitions == 0 or partition == nil then return true end
    for name in string.gmatch(partition, "[^,]+") do
        if contains(partitions, name) then return true end
    end
    return false
end

local requests = { "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task", "gres" }

local function asks_for_gpus(job)
    for _, field in ipairs(requests) do
        for entry in string.gmatch(job[field] or "", "[^,]+") do
            if string.find(entry, "gpu") and not string.find(entry, "[:=]0+$") then return true end
        end
    end
    return false
end

local function changes_gpus(job)
    for _, field in ipairs(requests) do
        if job[field] ~= nil and string.find(job[field], "gpu") then return true end
    end
    return false
end

-- What a job asks of nodes that would take GPUs past weft: a whole node comes with all of its GPUs.
local function wants_whole_nodes(job)
    return job.shared ~= nil and job.shared ~= slurm.NO_VAL16 and job.shared ~= 1 and job.shared < 65534
end

-- A job that its own user holds has this word in its comment; weft leaves it alone until the user releases it.
local hold_word = "weft-hold"

local function with_hold(comment)
    if comment == nil or comment == "" then return hold_word end
    if string.find(comment, hold_word, 1, true) then return comment end
    return comment .. " " .. hold_word
end

local function without_hold(comment)
    local left = string.gsub(comment, " ?weft%-hold", "")
    return left ~= "" and left or " "  -- an empty comment would change nothing
end

local function refuse(...)
    slurm.log_user(...)
    return slurm.ERROR
end

local function unknown_word(said)
    for key in string.gmatch((string.gsub(said, "%b[]", "")), "([%w_-]+)=") do
        if not contains(keys, key) then return key end
    end
    return nil
end

-- Slurm itself looks how long a comment is, but later. Patterns take long over a long one, and Slurm waits for them.
local longest = 1000

local function chooses_nodes(job)
    local options = { nodelist = "req_nodes", exclude = "exc_nodes", constraint = "features", reservation = "reservation" }
    for option, field in pairs(options) do
        if job[field] ~= nil and job[field] ~= "" then return option end
    end
    return nil
end

-- A job that says "#SBATCH --signal=[B:]USR1@120" can save its state when it is warned. Slurm would warn it before its time
-- limit; weft warns it before it is stopped, too, and gives it as long (120 s; 60 if it does not say; 600 at most).
local signals = { ["1"] = "HUP", ["2"] = "INT", ["10"] = "USR1", ["12"] = "USR2", ["15"] = "TERM" }

local function warning_in(script, environment)
    local said = nil
    for line in string.gmatch(script, "[^\r\n]+") do
        if string.match(line, "^#SBATCH%s") then said = string.match(line, "%s%-%-signal[=%s]%s*([%w:@]+)") or said end
    end
    said = environment ~= nil and environment["SBATCH_SIGNAL"] or said  -- it comes before the script, as for sbatch
    if said == nil then return nil end
    local name = string.gsub(string.upper(string.match(string.gsub(said, "^%a:", ""), "^%w+") or ""), "^SIG", "")
    name = signals[name] or name
    if not contains({ "TERM", "INT", "HUP", "USR1", "USR2" }, name) then return nil end
    local seconds = math.min(tonumber(string.match(said, "@(%d+)$") or "60") or 60, 600)
    return string.format("signal=%s grace_s=%d", name, seconds)
end

function slurm_job_submit(job, part_list, submit_uid)
    if not ours(job.partition) then return slurm.SUCCESS end
    if wants_whole_nodes(job) then
        return refuse("weft gives GPUs to one job at a time: submit it without --exclusive, and ask for GPUs if you want them")
    end
    if not asks_for_gpus(job) then return slurm.SUCCESS end
    if job.tres_per_socket ~= nil and string.find(job.tres_per_socket, "gpu") then
        return refuse("weft does not plan --gpus-per-socket: use --gpus, --gpus-per-node or --gpus-per-task")
    end
    if job.requeue == 0 then
        return refuse("weft may stop a job and start it again later: submit it without --no-requeue, or to another partition")
    end
    if job.script == nil or job.script == "" then
        slurm.log_user("weft schedules the GPUs here and runs batch jobs: use sbatch, for one job without parts, or another partition")
        return slurm.ERROR
    end
    local option = chooses_nodes(job)
    if option ~= nil then
        slurm.log_user("weft chooses the nodes of this job: submit it without --%s", option)
        return slurm.ERROR
    end
    local said = job.environment ~= nil and job.environment["WEFT_DESCRIPTION"] or nil
    if #(job.comment or "") + #(said or "") > longest then
        return refuse("a comment has at most %d letters here, what WEFT_DESCRIPTION says included", longest)
    end
    if said ~= nil and said ~= "" then
        job.comment = (job.comment ~= nil and job.comment .. " " or "") .. "weft: " .. said
    end
    local warning = warning_in(job.script, job.environment)
    if warning ~= nil and not string.find(job.comment or "", "grace_s=") and not string.find(job.comment or "", "signal=") then
        job.comment = (job.comment ~= nil and job.comment .. " " or "") .. "weft: " .. warning
    end
    local told = job.comment ~= nil and string.match(job.comment, "weft:(.*)") or nil
    local wrong = told ~= nil and unknown_word(told) or nil
    if wrong ~= nil then
        slurm.log_user("weft does not know '%s'; a description has the words: %s", wrong, table.concat(keys, ", "))
        return slurm.ERROR
    end
    if job.priority == 0 then job.comment = with_hold(job.comment) end
    job.priority = 0
    job.requeue = 1
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, part_list, modify_uid)
    if contains(owners, modify_uid) then return slurm.SUCCESS end
    local there = job.partition ~= nil and job.partition ~= "" and job.partition or record.partition
    if not ours(there) then return slurm.SUCCESS end
    if wants_whole_nodes(job) then return refuse("weft gives GPUs to one job at a time: a job here cannot be --exclusive") end
    if changes_gpus(job) then
        return refuse("weft has planned with what this job asked for: cancel it, and submit it with the GPUs that you want")
    end
    if not asks_for_gpus(record) then return slurm.SUCCESS end
    if job.nice ~= nil and job.nice ~= slurm.NO_VAL and record.priority == 0 then  -- Slurm would give it a priority
        return refuse("weft holds this job until it starts it, and another nice would release it: submit it with --nice")
    end
    if job.requeue == 0 then
        return refuse("weft may stop this job and start it again later: it has to be requeueable")
    end
    local option = chooses_nodes(job)
    if option ~= nil then return refuse("weft chooses the nodes of this job: it cannot have --%s", option) end
    local moved = not ours(record.partition)
    if moved or job.priority == 0 then  -- held by its user, or new here: it comes to weft when it is released
        if job.priority == 0 then job.comment = with_hold(job.comment or record.comment) end
        job.priority = 0
        return slurm.SUCCESS
    end
    if job.priority ~= nil and job.priority ~= slurm.NO_VAL and record.priority == 0 then
        local comment = job.comment or record.comment
        if comment ~= nil and string.find(comment, hold_word, 1, true) then
            job.comment = without_hold(comment)
            job.priority = 0
            return slurm.SUCCESS
        end
        return refuse("weft starts this job; squeue -O jobid,admin_comment:100 tells why it waits")
    end
    return slurm.SUCCESS
end

return slurm.SUCCESS
