-- weft's submission hook. Batch jobs that ask for GPUs are held until weft starts them; what a job says about itself in
-- WEFT_DESCRIPTION (sbatch --export=ALL,WEFT_DESCRIPTION='model=resnet50 iterations=1000') goes into its comment.
-- Everything else passes untouched. Keep your own rules: call these two functions from yours.

local version = "@VERSION@"         -- of the weft that has written this
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

local function mentions(job, name)
    for _, field in ipairs(requests) do
        if job[field] ~= nil and string.find(job[field], name) then return true end
    end
    return false
end

-- Parts of GPUs, which several jobs may have. Slurm gives a GPU either whole or in parts.
local function asks_for_parts(job)
    for _, field in ipairs(requests) do
        for entry in string.gmatch(job[field] or "", "[^,]+") do
            local part = string.find(entry, "shard") or string.find(entry, "mps")
            if part and not string.find(entry, "[:=]0+$") then return true end
        end
    end
    return false
end

local function number(value, none)
    return value ~= nil and value ~= none and value > 0 and value or nil
end

-- --ntasks-per-gpu without a number of GPUs: Slurm divides, after this hook. The number of GPUs, or 0 if it is not plain.
local function gpus_for_tasks(job)
    local each = number(job.ntasks_per_tres, slurm.NO_VAL16)
    if each == nil or asks_for_gpus(job) then return nil end
    local tasks = number(job.num_tasks, slurm.NO_VAL)
    if tasks == nil and number(job.min_nodes, slurm.NO_VAL) ~= nil and job.min_nodes == job.max_nodes then
        tasks = job.min_nodes * each
    end
    if tasks == nil or tasks % each ~= 0 or mentions(job, "gpu") then return 0 end
    return math.floor(tasks / each)
end

-- What a job asks of nodes that would take GPUs past weft: a whole node comes with all of its GPUs.
local function wants_whole_nodes(job)
    if number(job.core_spec, slurm.NO_VAL16) ~= nil then return true end  -- newer versions tell
    return job.shared ~= nil and job.shared ~= slurm.NO_VAL16 and job.shared ~= 1 and job.shared < 65534
end

-- Whether a partition has OverSubscribe=EXCLUSIVE; of those of a job one is enough. Without a name it is the default.
local function gives_whole_nodes(partition, part_list)
    for name, part in pairs(part_list) do
        local asked = partition == nil and part.flag_default == 1
        for said in string.gmatch(partition or "", "[^,]+") do asked = asked or said == name end
        if asked and part.max_share == 0 then return true end
    end
    return false
end

-- A job that its own user holds has this word in its comment; weft leaves it alone until the user releases it.
local hold_word = "weft-hold"

local function has_hold(comment)
    return comment ~= nil and string.find(" " .. comment .. " ", '[%s"]weft%-hold[%s"]') ~= nil
end

local function with_hold(comment)
    if comment == nil or comment == "" then return hold_word end
    if has_hold(comment) then return comment end
    return comment .. " " .. hold_word
end

local function without_hold(comment)
    local left = string.gsub(" " .. comment .. " ", '([%s"])weft%-hold([%s"])', "%1%2")
    left = string.match(left, "^%s*(.-)%s*$")
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
    if number(job.req_switch, slurm.NO_VAL) ~= nil then return "switches" end
    if job.contiguous ~= nil and job.contiguous ~= slurm.NO_VAL16 and job.contiguous ~= 0 then return "contiguous" end
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
    if gives_whole_nodes(job.partition, part_list) then
        return refuse("weft gives GPUs to one job at a time, and whole nodes of this partition go to a job: use another one")
    end
    if asks_for_parts(job) then return refuse("weft gives whole GPUs: ask for --gpus, not for parts of them (shard, mps)") end
    local derived = gpus_for_tasks(job)
    if derived == 0 then
        return refuse("say how many GPUs this job wants (--gpus), or with --ntasks-per-gpu a multiple of it as --ntasks")
    end
    if derived ~= nil then job.tres_per_job = string.format("gres:gpu:%d", derived) end
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
    -- Newer versions show the number of nodes that they guess, as if the user had said it.
    if number(job.max_nodes, slurm.NO_VAL) == nil and job.tres_per_job ~= nil and not string.find(told or "", "nodes=") then
        job.comment = (job.comment ~= nil and job.comment .. " " or "") .. "weft: nodes=any"
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
    if wants_whole_nodes(job) or gives_whole_nodes(there, part_list) then
        return refuse("weft gives GPUs to one job at a time: a job here cannot have whole nodes")
    end
    if not ours(record.partition) then  -- Slurm does not tell all that it asked for there
        return refuse("weft schedules the GPUs of that partition: cancel this job, and submit it there")
    end
    if mentions(job, "gpu") or mentions(job, "shard") or mentions(job, "mps") or number(job.ntasks_per_tres, slurm.NO_VAL16) then
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
    if job.comment ~= nil and record.comment ~= nil then  -- what the hook has noted outlasts another comment
        if string.find(record.comment, "nodes=any", 1, true) then job.comment = job.comment .. " weft: nodes=any" end
        if has_hold(record.comment) then job.comment = with_hold(job.comment) end
    end
    if job.priority == 0 then  -- held by its user: it comes to weft when it is released
        job.comment = with_hold(job.comment or record.comment)
        return slurm.SUCCESS
    end
    if job.priority ~= nil and job.priority ~= slurm.NO_VAL and record.priority == 0 then
        local comment = job.comment or record.comment
        if has_hold(comment) then
            job.comment = without_hold(comment)
            job.priority = 0
            return slurm.SUCCESS
        end
        return refuse("weft starts this job; squeue -O jobid,admin_comment:100 tells why it waits")
    end
    return slurm.SUCCESS
end

return slurm.SUCCESS
