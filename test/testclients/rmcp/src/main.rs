//! Runs the official Rust client (rmcp) against a gateway and prints its answers as one JSON object,
//! as client.mjs does.

#![allow(deprecated)] // logging, which the gateway still passes on

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::*;
use rmcp::service::{
    NotificationContext, PeerRequestOptions, RequestContext, RunningService, ServiceError,
};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

type Failure = Box<dyn std::error::Error>;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Job {
    url: String,
    command: Vec<String>,
    headers: HashMap<String, String>,
    reply: Option<Value>,
    opens: Option<Vec<String>>,
    handshake: bool,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    method: String,
    #[serde(default)]
    params: Option<Value>,
    #[serde(default)]
    progress: bool,
}

/// Records the messages of the server other than its answers.
#[derive(Default)]
struct Watch {
    reply: Option<Value>,
    opens: Option<Vec<String>>,
    seen: Mutex<Seen>,
    changed: Notify,
}

#[derive(Default)]
struct Seen {
    asked: Vec<String>,
    opened: Vec<Value>,
    logs: Vec<Value>,
    progress: Vec<ProgressNotificationParam>,
}

#[derive(Clone)]
struct Handler(Arc<Watch>);

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.0.opens.is_some() {
            let both = ElicitationCapability::new().with_form(Default::default());
            capabilities.elicitation = Some(both.with_url(Default::default()));
        } else if self.0.reply.is_some() {
            capabilities.elicitation = Some(ElicitationCapability::new());
        }
        ClientConfig::new(
            capabilities,
            Implementation::new("portcullis-clients", "1.0.0"),
        )
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let mut seen = self.0.seen.lock().unwrap();
        match request {
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
                let opens = self.0.opens.as_deref().unwrap_or_default();
                let action = opens[seen.opened.len().min(opens.len() - 1)].clone();
                seen.opened
                    .push(json!({"action": action, "message": message, "url": url}));
                Ok(serde_json::from_value(json!({"action": action})).unwrap())
            }
            ElicitRequestParams::FormElicitationParams { message, .. } => {
                seen.asked.push(message);
                let reply = self.0.reply.clone().unwrap_or_default();
                Ok(ElicitResult::new(ElicitationAction::Accept).with_content(reply))
            }
            _ => Err(ErrorData::invalid_params("another kind of question", None)),
        }
    }

    async fn on_progress(&self, p: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.0.seen.lock().unwrap().progress.push(p);
    }

    async fn on_logging_message(
        &self,
        p: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.0.seen.lock().unwrap().logs.push(p.data);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.changed.notify_one();
    }
}

type Client = RunningService<RoleClient, Handler>;

async fn connect(job: &Job, handler: Handler) -> Result<Client, Failure> {
    let mode = if job.handshake {
        ClientLifecycleMode::Initialize
    } else {
        ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        }
    };
    if let [program, args @ ..] = &job.command[..] {
        let mut command = tokio::process::Command::new(program);
        command.args(args).stderr(Stdio::inherit());
        return Ok(handler
            .serve_with_lifecycle(TokioChildProcess::new(command)?, mode)
            .await?);
    }
    let mut headers = HashMap::new();
    for (name, value) in &job.headers {
        headers.insert(
            name.parse::<http::HeaderName>()?,
            value.parse::<http::HeaderValue>()?,
        );
    }
    let config =
        StreamableHttpClientTransportConfig::with_uri(job.url.as_str()).custom_headers(headers);
    Ok(handler
        .serve_with_lifecycle(StreamableHttpClientTransport::from_config(config), mode)
        .await?)
}

/// Takes one step. The outer error is a fault of the job, and the inner one is the client's.
async fn take(
    client: &Client,
    watch: &Watch,
    step: &Step,
) -> Result<Result<Value, ServiceError>, Failure> {
    fn value(
        result: Result<impl serde::Serialize, ServiceError>,
    ) -> Result<Result<Value, ServiceError>, Failure> {
        Ok(match result {
            Ok(result) => Ok(serde_json::to_value(result)?),
            Err(error) => Err(error),
        })
    }
    let params = step.params.clone().unwrap_or_else(|| json!({}));
    match step.method.as_str() {
        "tools/list" => value(client.list_tools(None).await),
        "tools/call" => value(client.call_tool(serde_json::from_value(params)?).await),
        "prompts/list" => value(client.list_prompts(None).await),
        "prompts/get" => value(client.get_prompt(serde_json::from_value(params)?).await),
        "resources/list" => value(client.list_resources(None).await),
        "resources/templates/list" => value(client.list_resource_templates(None).await),
        "resources/read" => value(client.read_resource(serde_json::from_value(params)?).await),
        "notifications/tools/list_changed" => {
            watch.changed.notified().await;
            Ok(Ok(json!({})))
        }
        other => Err(format!("no step {other}").into()),
    }
}

/// Calls a tool, and returns the progress of the call. The client reads progress and results in
/// different tasks, so the last progress can come after the result.
async fn call_with_progress(
    client: &Client,
    watch: &Watch,
    params: CallToolRequestParams,
) -> Result<(ServerResult, Vec<Value>), ServiceError> {
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let handle = client
        .send_cancellable_request(request, PeerRequestOptions::no_options())
        .await?;
    let token = handle.progress_token.clone();
    let result = handle.await_response().await?;
    let mut progress = vec![];
    for _ in 0..100 {
        progress = watch.seen.lock().unwrap().progress.clone();
        progress.retain(|p| p.progress_token == token);
        if progress.last().is_some_and(|p| Some(p.progress) == p.total) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let progress = progress
        .iter()
        .map(|p| json!({"progress": p.progress, "total": p.total, "message": p.message}));
    Ok((result, progress.collect()))
}

fn failure(error: ServiceError) -> Value {
    let ServiceError::McpError(e) = &error else {
        return json!({"code": 0, "message": error.to_string(), "name": "ServiceError"});
    };
    let url = e
        .data
        .as_ref()
        .and_then(|d| d.pointer("/elicitations/0/url"))
        .cloned();
    json!({"code": e.code.0, "message": e.message, "name": "ServiceError::McpError", "url": url.unwrap_or_default()})
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let job: Job = serde_json::from_str(&std::env::args().nth(1).ok_or("no job")?)?;
    let watch = Arc::new(Watch {
        reply: job.reply.clone(),
        opens: job.opens.clone(),
        ..Watch::default()
    });
    let client = connect(&job, Handler(watch.clone())).await?;
    // With the stateless protocol, a client subscribes to changes. Others get them on their session.
    let began = client.peer_info().ok_or("no server")?;
    if began.protocol_version == ProtocolVersion::V_2026_07_28 {
        let mut changes = client
            .listen(SubscriptionFilter::builder().tools_list_changed().build())
            .await?;
        let watch = watch.clone();
        tokio::spawn(async move {
            while let Ok(Some(_)) = changes.next().await {
                watch.changed.notify_one();
            }
        });
    }
    let mut answers = vec![];
    for step in &job.steps {
        if step.progress {
            let params = serde_json::from_value(step.params.clone().unwrap_or_default())?;
            let (result, progress) = call_with_progress(&client, &watch, params).await?;
            answers.push(json!({"result": result, "progress": progress}));
            continue;
        }
        let answer = match take(&client, &watch, step).await? {
            Ok(result) => json!({"result": result}),
            Err(error) => json!({"error": failure(error)}),
        };
        answers.push(answer);
    }
    let seen = watch.seen.lock().unwrap();
    println!(
        "{}",
        json!({
            "version": began.protocol_version, "server": began.server_info, "capabilities": began.capabilities,
            "instructions": began.instructions, "answers": answers,
            "asked": seen.asked, "opened": seen.opened, "logs": seen.logs,
        })
    );
    Ok(())
}
